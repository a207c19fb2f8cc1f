#pragma once

#include <algorithm>

#include "chess/native/features/feature_set.h"

// Factorised sets: behind the inputs of another set, a virtual input for each piece and square without a king bucket.
// What is learnt for a piece in one bucket then helps in all; on export the virtual rows are added to the real ones.
namespace sparsepool::chess {

// The virtual inputs of `real`: squares are flipped as there, and planes are in its order. But the kings have planes of
// their own.
struct VirtualRule {
    static constexpr std::uint32_t kPlanes = kNumPieceKinds;

    const PieceInputs& real;

    [[nodiscard]] static constexpr std::uint32_t buckets() { return 1; }

    [[nodiscard]] std::uint32_t plane(std::uint32_t piece) const {
        for (std::uint32_t plane = 0; plane < real.planes; ++plane) {
            if (real.pieces[plane] == piece) return plane;
        }
        return kPlanes - 1;
    }

    [[nodiscard]] static constexpr std::uint32_t bucket(std::uint32_t, std::uint32_t) { return 0; }

    [[nodiscard]] std::uint32_t flip(std::uint32_t colour, std::uint32_t king) const {
        return real.flip[64 * colour + king];
    }
};

// Returns the first virtual index, a multiple of 64. The few inputs in between are never active.
[[nodiscard]] inline std::uint32_t first_virtual_input(std::uint32_t num_inputs) { return (num_inputs + 63) / 64 * 64; }

// Returns the set with virtual inputs for those of its piece inputs that have king buckets.
[[nodiscard]] inline FeatureSet add_virtual_inputs(const FeatureSet& real) {
    FeatureSet set = real;
    for (const PieceInputs& inputs : real.piece_inputs) {
        if (inputs.buckets < 2) continue;
        set.piece_inputs.push_back(build_piece_inputs(VirtualRule{inputs}, first_virtual_input(set.num_inputs)));
        set.num_inputs = set.piece_inputs.back().end();
        set.max_active += 32;
    }
    return set;
}

inline constexpr std::uint32_t kNoVirtual = 0xFFFFFFFF;

// Returns the squares on which the own king can be in a king bucket, as the view flips them.
[[nodiscard]] inline std::uint64_t own_king_squares(const PieceInputs& inputs, std::uint32_t bucket) {
    std::uint64_t squares = 0;
    for (std::uint32_t view = 0; view < kViews; ++view) {
        if (inputs.bucket[view] == bucket) squares |= std::uint64_t{1} << (view % 64 ^ inputs.flip[view]);
    }
    return squares;
}

// Where both kings share a plane: assigns the virtual inputs of the enemy king. Inputs of the plane on squares of the
// bucket are of the own king, all others of the enemy king.
inline void assign_enemy_kings(const PieceInputs& inputs, std::uint32_t first_virtual,
                               std::vector<std::uint32_t>& virtual_of) {
    const std::uint32_t enemy_king_plane = VirtualRule{inputs}.plane(kEnemyKing);
    const auto kings_plane = static_cast<std::uint32_t>(std::ranges::find(inputs.pieces, kOwnKing) - inputs.pieces);
    for (std::uint32_t bucket = 0; bucket < inputs.buckets; ++bucket) {
        const std::uint64_t own_king = own_king_squares(inputs, bucket);
        const std::uint32_t plane = bucket * inputs.planes + kings_plane;
        for (std::uint32_t square = 0; square < 64; ++square) {
            if ((own_king >> square & 1) != 0) continue;
            virtual_of[inputs.first + 64 * plane + square] = first_virtual + 64 * enemy_king_plane + square;
        }
    }
}

// Returns for each input of `real` the index of its virtual input in add_virtual_inputs(real), or kNoVirtual.
[[nodiscard]] inline std::vector<std::uint32_t> virtual_inputs(const FeatureSet& real) {
    std::vector<std::uint32_t> virtual_of(real.num_inputs, kNoVirtual);
    std::uint32_t first = first_virtual_input(real.num_inputs);
    for (const PieceInputs& inputs : real.piece_inputs) {
        if (inputs.buckets < 2) continue;
        const VirtualRule rule{inputs};
        for (std::uint32_t i = 0; i < inputs.end() - inputs.first; ++i) {
            const std::uint32_t piece = inputs.pieces[i / 64 % inputs.planes];
            virtual_of[inputs.first + i] = first + 64 * rule.plane(piece) + i % 64;
        }
        const bool kings_share_plane = inputs.planes < kNumPieceKinds;
        if (kings_share_plane) assign_enemy_kings(inputs, first, virtual_of);
        first += 64 * VirtualRule::kPlanes;
    }
    return virtual_of;
}

}  // namespace sparsepool::chess
