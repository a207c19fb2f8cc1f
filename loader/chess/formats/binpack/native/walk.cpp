#include "chess/formats/binpack/native/walk.h"

#include <utility>

#include "chess/formats/binpack/native/kernels.h"
#include "chess/native/make_record.h"
#include "common/simd.h"

namespace sparsepool::binpack {

ChainWalk::ChainWalk(std::string_view bytes, std::span<const std::uint64_t> ends, const chess::ReadOptions& options)
    : bytes_(chess::span_of(bytes)), ends_(ends) {
    lane_.state.payload = ends.empty() ? bytes_ : bytes_.first(ends.front());
    lane_.state.options = options;
    lane_.state.skipped = &skipped_;
}

bool ChainWalk::begin_next() {
    ChunkState& state = lane_.state;
    if (state.fault != Fault::kNone || ends_.size() < 2) return false;
    state.before = ends_[0];
    state.payload = bytes_.subspan(ends_[0], ends_[1] - ends_[0]);
    ends_ = ends_.subspan(1);
    state.bit = state.stem = 0;
    state.followers = state.entry_index = 0;
    return true;
}

const chess::Entry* ChainWalk::next() {
    const auto next = simd::kernels<Kernels>().next;
    do {
        if (next(lane_.state)) return &lane_.state.entry;
    } while (begin_next());
    return nullptr;
}

std::size_t ChainWalk::read(chess::Record* out, std::size_t capacity, bool checks) {
    std::size_t count = 0;
    if (lane_.state.options.every_position) {  // which lanes do not look at
        for (; count < capacity && next() != nullptr; ++count) out[count] = chess::make_record(lane_.state.entry);
        return count;
    }
    Lane* const lane = &lane_;
    do {
        lane_.out = out + count;
        simd::kernels<Kernels>().read_lanes(&lane, 1, capacity - count, checks);
        count = static_cast<std::size_t>(lane_.out - out);
    } while (count < capacity && (!lane_.at_end || begin_next()));
    return count;
}

std::uint64_t ChainWalk::count() {
    std::uint64_t entries = 0;
    do {
        entries += simd::kernels<Kernels>().count_entries(lane_.state);
    } while (begin_next());
    return entries;
}

std::optional<chess::Damage> ChainWalk::damage() const {
    const ChunkState& state = lane_.state;
    if (state.fault == Fault::kNone) return std::nullopt;
    return refusal(state.fault == Fault::kIllegal ? describe(state.illegal) : describe(state.fault));
}

chess::Damage ChainWalk::refusal(std::string reason) const {
    return {lane_.state.before + lane_.state.stem, lane_.state.entry_index, std::move(reason), false};
}

}  // namespace sparsepool::binpack
