#include "batch/builder.h"

#include <cstring>

#include "batch/transpose.h"
#include "chess/bitboard.h"

namespace sparsepool::batch {
namespace {

std::uint32_t piece_count_of(const chess::Record& record) { return chess::count_squares(record.occupied); }

}  // namespace

Builder::Builder(const Layout& layout, const features::FeatureSet& set)
    : layout_(layout),
      set_(set),
      samples_(layout.batch_size),
      opponent_(std::size_t{layout.batch_size} * set.max_active() * layout.features.item_size),
      bags_(layout.bags.count * layout.bags.item_size),
      counts_(set.num_inputs()) {}

void Builder::build(std::uint64_t number, std::span<const chess::Record> head, std::span<const chess::Record> body,
                    std::byte* slot) {
    order_by_bucket(head, body, slot);
    write_dense(slot);
    std::uint32_t touched = 0;
    if (set_.wide()) {
        write_rows<std::uint32_t>(slot);
        touched = write_columns<std::uint32_t>(slot);
    } else {
        write_rows<std::uint16_t>(slot);
        touched = write_columns<std::uint16_t>(slot);
    }
    auto* header = array_in<std::uint64_t>(slot, layout_.header);
    header[0] = number;
    header[1] = array_in<std::uint32_t>(slot, layout_.offsets)[layout_.num_bags()];
    header[2] = touched;
}

// A stable counting sort, so that the batch is a function of the records alone (I1).
void Builder::order_by_bucket(std::span<const chess::Record> head, std::span<const chess::Record> body,
                              std::byte* slot) {
    auto* offsets = array_in<std::uint32_t>(slot, layout_.bucket_offsets);
    std::uint32_t next[kNumBuckets + 1] = {};
    for (const auto part : {head, body}) {
        for (const chess::Record& record : part) ++next[bucket_of(piece_count_of(record)) + 1];
    }
    for (std::uint32_t bucket = 0; bucket < kNumBuckets; ++bucket) next[bucket + 1] += next[bucket];
    std::memcpy(offsets, next, sizeof next);
    for (const auto part : {head, body}) {
        for (const chess::Record& record : part) samples_[next[bucket_of(piece_count_of(record))]++] = record;
    }
}

void Builder::write_dense(std::byte* slot) const {
    auto* score = array_in<std::int16_t>(slot, layout_.score);
    auto* result = array_in<std::int8_t>(slot, layout_.result);
    auto* ply = array_in<std::uint16_t>(slot, layout_.ply);
    auto* piece_count = array_in<std::uint8_t>(slot, layout_.piece_count);
    auto* side_to_move = array_in<std::uint8_t>(slot, layout_.side_to_move);
    for (std::size_t i = 0; i < samples_.size(); ++i) {
        const chess::Record& record = samples_[i];
        score[i] = record.score;
        result[i] = record.result;
        ply[i] = record.ply;
        piece_count[i] = static_cast<std::uint8_t>(piece_count_of(record));
        side_to_move[i] = record.flags & chess::kBlackToMove;
    }
}

// Bags 0 .. B - 1 are the side to move's perspective, B .. 2B - 1 the opponent's.
template <class Number>
void Builder::write_rows(std::byte* slot) {
    const std::uint32_t batch_size = layout_.batch_size;
    auto* offsets = array_in<std::uint32_t>(slot, layout_.offsets);
    auto* numbers = array_in<Number>(slot, layout_.features);
    offsets[0] = 0;
    std::uint32_t* own_ends = offsets + 1;
    std::uint32_t* opponent_ends = own_ends + batch_size;
    set_.extract(samples_, {own_ends, numbers}, {opponent_ends, opponent_.data()});
    const std::uint32_t own_active = own_ends[batch_size - 1];
    std::memcpy(numbers + own_active, opponent_.data(), opponent_ends[batch_size - 1] * sizeof(Number));
    for (std::uint32_t i = 0; i < batch_size; ++i) opponent_ends[i] += own_active;
}

// The lists are filled here and there, feature by feature, so that is done in scratch memory that stays in
// this core's cache; the slot gets them in one sweep. On slots out of cache that halves the time.
template <class Number>
std::uint32_t Builder::write_columns(std::byte* slot) {
    const auto* offsets = array_in<std::uint32_t>(slot, layout_.offsets);
    const auto* numbers = array_in<Number>(slot, layout_.features);
    const auto into = [&]<class Bag>(Bag* bags) {
        const Columns<Number, Bag> columns{array_in<Number>(slot, layout_.touched),
                                           array_in<std::uint32_t>(slot, layout_.touched_offsets), bags};
        return transpose(offsets, layout_.num_bags(), numbers, counts_, columns);
    };
    const std::uint64_t item_size = layout_.bags.item_size;
    const std::uint32_t touched = item_size == 2 ? into(reinterpret_cast<std::uint16_t*>(bags_.data()))
                                                 : into(reinterpret_cast<std::uint32_t*>(bags_.data()));
    std::memcpy(slot + layout_.bags.offset, bags_.data(), offsets[layout_.num_bags()] * item_size);
    return touched;
}

}  // namespace sparsepool::batch
