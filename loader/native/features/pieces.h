#pragma once

#include <cstdint>
#include <type_traits>

#include "features/feature_set.h"

// What the feature sets share: a record as a list of pieces, and the loop over records.
namespace sparsepool::features {

struct Pieces {
    std::uint32_t count = 0;
    std::uint8_t square[32];
    std::uint8_t code[32];  // 2 * type + colour
    std::uint8_t king[2];   // square, by colour
};

// Reads 32 squares at most, whatever the record holds: its nibbles have no room for more.
inline void list_pieces(const chess::Record& record, Pieces& pieces) {
    std::uint32_t count = 0;
    for (std::uint64_t rest = record.occupied; rest != 0 && count < 32; rest &= rest - 1, ++count) {
        const auto square = static_cast<std::uint8_t>(__builtin_ctzll(rest));
        const auto code = static_cast<std::uint8_t>(record.pieces[count / 2] >> (4 * (count & 1)) & 15);
        pieces.square[count] = square;
        pieces.code[count] = code;
        if (code >= 10) pieces.king[code & 1] = square;
    }
    pieces.count = count;
}

// Set::write(pieces, perspective, out) writes one bag and gives back its size; `perspective` is a colour.
template <class Set, class Number>
void extract_bags(std::span<const chess::Record> records, Bags own, Bags opponent) {
    auto* own_features = static_cast<Number*>(own.features);
    auto* opponent_features = static_cast<Number*>(opponent.features);
    std::uint32_t own_end = 0;
    std::uint32_t opponent_end = 0;
    Pieces pieces;
    for (std::size_t i = 0; i < records.size(); ++i) {
        list_pieces(records[i], pieces);
        const unsigned us = records[i].flags & chess::kBlackToMove;
        own_end += Set::write(pieces, us, own_features + own_end);
        opponent_end += Set::write(pieces, us ^ 1, opponent_features + opponent_end);
        own.ends[i] = own_end;
        opponent.ends[i] = opponent_end;
    }
}

// A feature set out of a struct with kName, kNumInputs, kMaxActive and `write`.
template <class Set>
class FeatureSetOf final : public FeatureSet {
  public:
    [[nodiscard]] std::string_view name() const override { return Set::kName; }
    [[nodiscard]] std::uint32_t num_inputs() const override { return Set::kNumInputs; }
    [[nodiscard]] std::uint32_t max_active() const override { return Set::kMaxActive; }

    void extract(std::span<const chess::Record> records, Bags own, Bags opponent) const override {
        using Number = std::conditional_t<(Set::kNumInputs > 1U << 16), std::uint32_t, std::uint16_t>;
        extract_bags<Set, Number>(records, own, opponent);
    }
};

}  // namespace sparsepool::features
