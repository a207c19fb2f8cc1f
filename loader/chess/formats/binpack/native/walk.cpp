#include "chess/formats/binpack/native/walk.h"

#include <utility>

#include "chess/formats/binpack/native/kernels.h"
#include "chess/native/make_record.h"
#include "common/simd.h"

namespace sparsepool::binpack {

ChainWalk::ChainWalk(std::string_view payload, const chess::Demands& demands) {
    lane_.state.payload = chess::span_of(payload);
    lane_.state.demands = demands;
    lane_.state.left_out = &illegal_;
}

const chess::Entry* ChainWalk::next() {
    return simd::kernels<Kernels>().next(lane_.state) ? &lane_.state.entry : nullptr;
}

std::size_t ChainWalk::read(chess::Record* out, std::size_t capacity, bool checks) {
    if (lane_.state.demands.every) {  // which lanes do not look at
        std::size_t count = 0;
        for (; count < capacity && next() != nullptr; ++count) out[count] = chess::make_record(lane_.state.entry);
        return count;
    }
    lane_.out = out;
    Lane* const lane = &lane_;
    simd::kernels<Kernels>().read_lanes(&lane, 1, capacity, checks);
    return static_cast<std::size_t>(lane_.out - out);
}

std::uint64_t ChainWalk::count() { return simd::kernels<Kernels>().count_entries(lane_.state); }

std::optional<chess::Damage> ChainWalk::damage() const {
    const ChunkState& state = lane_.state;
    if (state.fault == Fault::kNone) return std::nullopt;
    return refusal(state.fault == Fault::kIllegal ? words_of(state.illegal) : describe(state.fault));
}

chess::Damage ChainWalk::refusal(std::string reason) const {
    return {lane_.state.stem, lane_.state.number, std::move(reason), false};
}

}  // namespace sparsepool::binpack
