#include "chess/formats/binpack/native/file/chunk.h"

#include <array>

#include "chess/formats/binpack/native/kernels.h"
#include "common/simd.h"

namespace sparsepool::binpack {

ChunkReader::ChunkReader(std::span<const std::uint8_t> payload, std::uint64_t payload_offset,
                         const chess::Demands& demands, chess::IllegalTally* left_out)
    : payload_offset_(payload_offset) {
    lane_.state.payload = payload;
    lane_.state.demands = demands;
    lane_.state.left_out = left_out;
}

std::size_t ChunkReader::read(chess::Record* records, std::size_t capacity) {
    lane_.out = records;
    read_chunks(std::array{this}, capacity, true);
    return static_cast<std::size_t>(lane_.out - records);
}

void ChunkReader::read_chunks(std::span<ChunkReader* const> readers, std::size_t count, bool checks) {
    Lane* lanes[kMaxLanes];
    for (std::size_t i = 0; i < readers.size(); ++i) lanes[i] = &readers[i]->lane_;
    simd::kernels<Kernels>().read_lanes(lanes, readers.size(), count, checks);
}

std::optional<Damage> ChunkReader::damage() const { return damage_of(lane_.state, payload_offset_); }

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

std::optional<Damage> damage_of(const ChunkState& state, std::uint64_t payload_offset) {
    if (state.fault == Fault::kNone) return std::nullopt;
    const char* words = state.fault == Fault::kIllegal ? words_of(state.illegal) : describe(state.fault);
    return Damage{payload_offset + state.stem, state.number, words};
}

Judged judge_chunk(std::span<const std::uint8_t> payload, std::uint64_t payload_offset) {
    Judged judged;
    ChunkState state;
    state.payload = payload;
    state.demands = {.on_illegal = chess::OnIllegal::kLeaveOut, .every = true};
    state.left_out = &judged.illegal;
    judged.entries = simd::kernels<Kernels>().count_entries(state);
    judged.damage = damage_of(state, payload_offset);
    return judged;
}

}  // namespace sparsepool::binpack
