#pragma once

#include <algorithm>

#include "chess/native/features/feature_set.h"
#include "common/check.h"

// chess768: piece and square as either side sees them, own pieces first: 384 * enemy + 64 * type + square. With king
// buckets there are 768 inputs for each bucket. Buckets for 32 squares mean that the view is also mirrored, so that the
// own king is on files a to d.
//
// chess704: the same, but both kings share a plane. Nothing is lost if any two squares of a king bucket are neighbours:
// the kings can't both be in it.
namespace sparsepool::chess {

struct Chess768 {
    static constexpr std::uint32_t kPlanes = 12;  // own pawn, own knight, ... own king, enemy pawn, ...
    static constexpr std::size_t kMirrored = 32;

    const std::vector<std::uint8_t>& king_buckets;

    [[nodiscard]] std::uint32_t buckets() const {
        return king_buckets.empty() ? 1 : *std::ranges::max_element(king_buckets) + 1U;
    }

    [[nodiscard]] static constexpr std::uint32_t plane(std::uint32_t piece) { return piece % 2 * 6 + piece / 2; }

    // Black sees the board upside down; a king on e to h sees it mirrored, if there is mirroring.
    [[nodiscard]] std::uint32_t flip(std::uint32_t colour, std::uint32_t king) const {
        return (colour != 0 ? 56U : 0U) ^ (king_buckets.size() == kMirrored && (king & 7) > 3 ? 7U : 0U);
    }

    [[nodiscard]] std::uint32_t bucket(std::uint32_t colour, std::uint32_t king) const {
        if (king_buckets.empty()) return 0;
        const std::uint32_t oriented = king ^ flip(colour, king);
        const std::uint32_t files = king_buckets.size() == kMirrored ? 4 : 8;
        return king_buckets[oriented / 8 * files + oriented % 8];
    }
};

struct Chess704 : Chess768 {
    static constexpr std::uint32_t kPlanes = 11;  // own pawn, ... own king or enemy king, enemy pawn, ... enemy queen

    [[nodiscard]] static constexpr std::uint32_t plane(std::uint32_t piece) {
        return Chess768::plane(piece == kEnemyKing ? kOwnKing : piece);
    }
};

// Builds chess768 or chess704, as `Rule` says. Throws std::invalid_argument for other numbers of king buckets, and if
// their numbers have gaps.
template <class Rule>
[[nodiscard]] FeatureSet make_chess768(const FeatureSettings& settings) {
    const std::vector<std::uint8_t>& buckets = settings.king_buckets;
    const std::size_t size = buckets.size();
    require(size == 0 || size == 64 || size == Chess768::kMirrored, "king_buckets: ", size,
            " numbers; allowed are 64, or 32 for files a to d");
    const unsigned last_bucket = buckets.empty() ? 0 : std::ranges::max(buckets);
    for (unsigned bucket = 0; bucket < last_bucket; ++bucket) {
        require(std::ranges::count(buckets, bucket) > 0, "king_buckets: no square has bucket ", bucket,
                "; they are numbered from 0 without gaps");
    }
    return build_set({build_piece_inputs(Rule{settings.king_buckets}, 0)});
}

}  // namespace sparsepool::chess
