#include "formats/binpack/chunk.h"

#include "formats/binpack/decode.h"
#include "simd.h"

namespace sparsepool {

ChunkReader::ChunkReader(std::span<const std::uint8_t> payload, std::uint64_t payload_offset)
    : payload_offset_(payload_offset) {
    state_.payload = payload;
}

std::size_t ChunkReader::read(chess::Record* records, std::size_t capacity) {
#if defined(__x86_64__)
    if (simd_level() == SimdLevel::kAvx2) return binpack::read_records_avx2(state_, records, capacity);
#endif
    return binpack::read_records_baseline(state_, records, capacity);
}

std::optional<Damage> ChunkReader::damage() const { return damage_of(state_, payload_offset_); }

std::optional<Damage> decode_chunk(std::span<const std::uint8_t> payload, std::uint64_t payload_offset,
                                   std::vector<chess::Record>& out) {
    constexpr std::size_t kBlock = 16384;
    ChunkReader reader(payload, payload_offset);
    for (;;) {
        const std::size_t before = out.size();
        out.resize(before + kBlock);
        const std::size_t count = reader.read(out.data() + before, kBlock);
        out.resize(before + count);
        if (count < kBlock) return reader.damage();
    }
}

std::optional<Damage> damage_of(const binpack::ChunkState& state, std::uint64_t payload_offset) {
    if (state.fault == binpack::Fault::kNone) return std::nullopt;
    return Damage{payload_offset + state.stem, state.number, binpack::describe(state.fault)};
}

}  // namespace sparsepool
