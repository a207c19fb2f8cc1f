#pragma once

#include <algorithm>

#include "chess/native/features/feature_set.h"

// Factorised sets: behind the inputs of another set, for each piece a virtual input that knows no king bucket. What is
// learnt for a piece under one king then helps under all; on export the virtual rows are added to the real ones.
namespace sparsepool::chess {

// Squares are turned as in `real`. Planes are its planes too; where both kings share one, they are apart here.
struct VirtualRule {
    static constexpr std::uint32_t kPlanes = kPieces;

    const Part& real;

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

// Parts begin at a multiple of 64; the few inputs in between are never on.
[[nodiscard]] inline std::uint32_t first_virtual_input(std::uint32_t num_inputs) { return (num_inputs + 63) / 64 * 64; }

// With virtual inputs for each part that has more than one king bucket.
[[nodiscard]] inline FeatureSet add_virtual_inputs(const FeatureSet& real) {
    FeatureSet set = real;
    for (const Part& part : real.parts) {
        if (part.buckets < 2) continue;
        set.parts.push_back(make_part(VirtualRule{part}, first_virtual_input(set.num_inputs)));
        set.num_inputs = set.parts.back().end();
        set.max_active += 32;
    }
    return set;
}

inline constexpr std::uint32_t kNoVirtual = 0xFFFFFFFF;

// The virtual input, numbered as in `factorised(real)`, of each input of `real`. Where both kings share a plane, the
// own one is on the square that the king bucket stands for, the enemy's on any other.
[[nodiscard]] inline std::vector<std::uint32_t> virtual_inputs(const FeatureSet& real) {
    std::vector<std::uint32_t> found(real.num_inputs, kNoVirtual);
    std::uint32_t first = first_virtual_input(real.num_inputs);
    for (const Part& part : real.parts) {
        if (part.buckets < 2) continue;
        const VirtualRule rule{part};
        for (std::uint32_t i = 0; i < part.end() - part.first; ++i) {
            found[part.first + i] = first + 64 * rule.plane(part.pieces[i / 64 % part.planes]) + i % 64;
        }
        const bool kings_together = part.planes < kPieces;
        const auto kings = static_cast<std::uint32_t>(std::ranges::find(part.pieces, kOwnKing) - part.pieces);
        for (std::uint32_t bucket = 0; kings_together && bucket < part.buckets; ++bucket) {
            std::uint64_t own = 0;  // squares of the own king, as the view is turned
            for (std::uint32_t view = 0; view < kViews; ++view) {
                if (part.bucket[view] == bucket) own |= std::uint64_t{1} << (view % 64 ^ part.flip[view]);
            }
            const std::uint32_t plane = bucket * part.planes + kings;
            for (std::uint32_t square = 0; square < 64; ++square) {
                if ((own >> square & 1) != 0) continue;
                found[part.first + 64 * plane + square] = first + 64 * rule.plane(kEnemyKing) + square;
            }
        }
        first += 64 * VirtualRule::kPlanes;
    }
    return found;
}

}  // namespace sparsepool::chess
