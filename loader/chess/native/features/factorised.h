#pragma once

#include <utility>

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

// With virtual inputs for each part that has more than one king bucket.
[[nodiscard]] inline FeatureSet factorised(const FeatureSet& real) {
    std::vector<Part> parts = real.parts;
    for (const Part& part : real.parts) {
        if (part.buckets > 1) parts.push_back(make_part(VirtualRule{part}, parts.back().end()));
    }
    return make_set(std::move(parts));
}

}  // namespace sparsepool::chess
