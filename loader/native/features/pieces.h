#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "features/feature_set.h"

// What the feature sets share: a record as a list of pieces, and the loop over records.
namespace sparsepool::features {

inline constexpr std::uint32_t kMaxPieces = 32;

struct Pieces {
    std::uint32_t count = 0;
    std::uint8_t square[kMaxPieces] = {};
    std::uint8_t code[kMaxPieces] = {};  // 2 * type + colour
    std::uint8_t king[2] = {};           // square, by colour
};

// Index of the first nibble of that code; 0 if there is none.
inline std::uint32_t find_nibble(const std::uint64_t (&words)[2], std::uint64_t code) {
    constexpr std::uint64_t kOnes = 0x1111111111111111;
    for (std::uint32_t i = 0; i < 2; ++i) {
        const std::uint64_t apart = words[i] ^ (kOnes * code);
        // The lowest bit set marks the lowest nibble that is zero; what borrows do above it does not matter.
        const std::uint64_t zero = (apart - kOnes) & ~apart & (kOnes << 3);
        if (zero != 0) return 16 * i + static_cast<std::uint32_t>(__builtin_ctzll(zero)) / 4;
    }
    return 0;
}

// Reads 32 squares at most, whatever the record holds: its nibbles have no room for more.
inline void list_pieces(const chess::Record& record, Pieces& pieces) {
    std::uint32_t count = 0;
    for (std::uint64_t rest = record.occupied; rest != 0 && count < kMaxPieces; rest &= rest - 1) {
        pieces.square[count++] = static_cast<std::uint8_t>(__builtin_ctzll(rest));
    }
    pieces.count = count;
    for (std::uint32_t i = 0; i < kMaxPieces / 2; ++i) {
        pieces.code[2 * i] = record.pieces[i] & 15;
        pieces.code[2 * i + 1] = record.pieces[i] >> 4;
    }
    std::uint64_t words[2];
    std::memcpy(words, record.pieces, sizeof words);
    pieces.king[0] = pieces.square[find_nibble(words, 10)];
    pieces.king[1] = pieces.square[find_nibble(words, 11)];
}

// Set::write(pieces, perspective, out) writes one bag and gives back its size; `perspective` is a colour. It may
// write to all kMaxActive places of the bag, whatever its size: the next bag overwrites them. So loops have a
// fixed length, and the compiler makes vectors of them.
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
