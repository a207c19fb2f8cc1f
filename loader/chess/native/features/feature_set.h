#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The inputs of the network. A feature set is data: tables from which the code in batch/ makes rows and columns of
// batches. That code is the same for all sets, so it is vectorized once.
namespace sparsepool::chess {

inline constexpr unsigned kViews = 128;         // a view is 64 * colour + square of that colour's king
inline constexpr unsigned kNumPieceKinds = 12;  // own pawn, enemy pawn, own knight, ... enemy king
inline constexpr unsigned kOwnKing = 10, kEnemyKing = 11;

// Inputs of which each piece activates one: first + 64 * (bucket * planes + plane) + (square ^ flip). The king bucket
// and the flip depend on the view, the plane on the piece as that colour sees it.
struct PieceInputs {
    std::uint32_t first = 0;                   // a multiple of 64
    std::uint32_t buckets = 1;                 // at most 256
    std::uint32_t planes = kNumPieceKinds;     // 11: both kings share one
    std::uint8_t pieces[kNumPieceKinds] = {};  // of each plane; of a plane with both kings the own one
    std::uint8_t bucket[kViews] = {};
    std::uint8_t flip[kViews] = {};             // 0, 7 (files mirrored), 56 (ranks mirrored) or 63
    std::uint32_t base_index[kViews][16] = {};  // by piece code (record.h): the index, to xor with the square

    [[nodiscard]] std::uint32_t plane_inputs() const { return planes * 64; }
    [[nodiscard]] std::uint32_t end() const { return first + buckets * plane_inputs(); }
};

struct Threats;  // threats.h

// A set of inputs, seen by either side: "own" is the side to move. Immutable.
//
// Relations are inputs of two pieces: threats and pairs of pawns. A bag holds those that fit in max_active, which is
// all in any position of a game; its pieces come first.
struct FeatureSet {
    std::vector<PieceInputs> piece_inputs;  // in the order of their indices, also within a bag
    std::uint32_t num_inputs = 0;
    std::uint32_t max_active = 0;      // in a bag: 32 for each of piece_inputs, and relations
    std::uint32_t first_relation = 0;  // index; only virtual inputs come behind the relations (factorised.h)
    const Threats* threats = nullptr;  // if any
    bool pawn_pairs = false;           // their indices are behind the threats'

    [[nodiscard]] bool has_relations() const { return threats != nullptr || pawn_pairs; }
    [[nodiscard]] bool has_32bit_indices() const { return num_inputs > 1U << 16; }  // otherwise 16 bits
};

// What a config says of a feature set beside its name.
struct FeatureSettings {
    // Of the own king's squares, seen from the own side: 64 from a1 to h8, or, if views are mirrored so that the own
    // king is on files a to d, 32 from a1, b1, c1, d1 to d8. Empty: as the set's rule says.
    std::vector<std::uint8_t> king_buckets;
};

// Builds the tables of a rule, which has buckets(), kPlanes, plane(piece), bucket(colour, king) and flip(colour, king).
template <class Rule>
[[nodiscard]] PieceInputs build_piece_inputs(const Rule& rule, std::uint32_t first) {
    static_assert(Rule::kPlanes == 12 || Rule::kPlanes == 11);
    PieceInputs inputs;
    inputs.first = first;
    inputs.buckets = rule.buckets();
    inputs.planes = Rule::kPlanes;
    // Descending, so that a plane with both kings is that of the own king.
    for (std::uint32_t piece = kNumPieceKinds; piece-- > 0;) {
        inputs.pieces[rule.plane(piece)] = static_cast<std::uint8_t>(piece);
    }
    for (std::uint32_t view = 0; view < kViews; ++view) {
        const std::uint32_t colour = view / 64;
        const std::uint32_t king = view % 64;
        const std::uint32_t bucket = rule.bucket(colour, king);
        const std::uint32_t flip = rule.flip(colour, king);
        inputs.bucket[view] = static_cast<std::uint8_t>(bucket);
        inputs.flip[view] = static_cast<std::uint8_t>(flip);
        for (std::uint32_t code = 0; code < kNumPieceKinds; ++code) {
            const std::uint32_t plane = rule.plane(code ^ colour);
            inputs.base_index[view][code] = first + 64 * (bucket * Rule::kPlanes + plane) + flip;
        }
    }
    return inputs;
}

// Builds a set without relations from one or more piece inputs, in the order of their indices.
[[nodiscard]] inline FeatureSet build_set(std::vector<PieceInputs> piece_inputs) {
    const std::uint32_t num_inputs = piece_inputs.back().end();
    const auto max_active = static_cast<std::uint32_t>(32 * piece_inputs.size());
    return {std::move(piece_inputs), num_inputs, max_active, num_inputs};
}

// The set of that name. Throws std::invalid_argument, a line that begins with the setting to change, if there is none
// or it can't have such settings.
[[nodiscard]] std::shared_ptr<const FeatureSet> make_feature_set(std::string_view name,
                                                                 const FeatureSettings& settings);

[[nodiscard]] std::vector<std::string> feature_set_names();

}  // namespace sparsepool::chess
