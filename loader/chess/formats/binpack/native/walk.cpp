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

bool ChainWalk::begin_next_payload() {
    ChunkState& state = lane_.state;
    if (state.fault != Fault::kNone || ends_.size() < 2) return false;
    const std::uint64_t begin = ends_[0];  // of the next payload: the end of the one that is done
    const std::uint64_t end = ends_[1];
    state.payload_begin = begin;
    state.payload = bytes_.subspan(begin, end - begin);
    ends_ = ends_.subspan(1);
    state.bit = state.chain_begin = 0;
    state.remaining = state.entry_index = 0;
    return true;
}

const chess::Entry* ChainWalk::next() {
    const auto next = simd::kernels<Kernels>().next;
    do {
        if (next(lane_.state)) return &lane_.state.entry;
    } while (begin_next_payload());
    return nullptr;
}

std::size_t ChainWalk::read(chess::Record* out, std::size_t capacity, bool checks) {
    std::size_t count = 0;
    if (lane_.state.options.every_position) {  // lanes do not check every position
        for (; count < capacity && next() != nullptr; ++count) out[count] = chess::make_record(lane_.state.entry);
        return count;
    }
    Lane* const lane = &lane_;
    do {
        lane_.out = out + count;
        simd::kernels<Kernels>().read_lanes(&lane, 1, capacity - count, checks);
        count = static_cast<std::size_t>(lane_.out - out);
    } while (count < capacity && (!lane_.at_end || begin_next_payload()));
    return count;
}

std::uint64_t ChainWalk::count() {
    std::uint64_t entries = 0;
    do {
        entries += simd::kernels<Kernels>().count_entries(lane_.state);
    } while (begin_next_payload());
    return entries;
}

std::optional<chess::Damage> ChainWalk::damage() const {
    const ChunkState& state = lane_.state;
    if (state.fault == Fault::kNone) return std::nullopt;
    return refusal(state.fault == Fault::kIllegal ? describe(state.illegal) : describe(state.fault));
}

chess::Damage ChainWalk::refusal(std::string reason) const {
    return {lane_.state.payload_begin + lane_.state.chain_begin, lane_.state.entry_index, std::move(reason), false};
}

}  // namespace sparsepool::binpack
