#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What of a position is an input of the network. A feature set is data: tables from which rows and columns of a batch
// are made, by code that is the same for all sets (batch/) and can be written for vectors once.
namespace sparsepool::chess {

inline constexpr unsigned kViews = 128;  // a view is 64 * colour + square of that colour's king
inline constexpr unsigned kPieces = 12;  // own pawn, enemy pawn, own knight, ... enemy king
inline constexpr unsigned kOwnKing = 10, kEnemyKing = 11;

// Every piece gives one number: first + 64 * (bucket * planes + plane) + (square ^ flip). The bucket and the flip
// depend on the view, the plane on the piece as that colour sees it.
struct Part {
    std::uint32_t first = 0;            // a multiple of 64
    std::uint32_t buckets = 1;          // at most 256
    std::uint32_t planes = kPieces;     // 11: both kings share one
    std::uint8_t pieces[kPieces] = {};  // of each plane; of a plane with both kings the own one
    std::uint8_t bucket[kViews] = {};
    std::uint8_t flip[kViews] = {};          // 0, 7 (files mirrored), 56 (ranks mirrored) or 63
    std::uint32_t numbers[kViews][16] = {};  // by piece code (record.h), for square 0

    [[nodiscard]] std::uint32_t plane_inputs() const { return planes * 64; }
    [[nodiscard]] std::uint32_t end() const { return first + buckets * plane_inputs(); }
};

struct Threats;  // threats.h

// A set of inputs, seen by either side: "own" is the side to move. Immutable.
//
// Relations are inputs of two pieces: threats and pairs of pawns. A bag holds those that fit in max_active, which is
// all in any position of a game; its pieces come first.
struct FeatureSet {
    std::vector<Part> parts;  // one behind the other, also within a bag
    std::uint32_t num_inputs = 0;
    std::uint32_t max_active = 0;      // of one perspective of one position: 32 a part, and relations
    std::uint32_t first_relation = 0;  // behind the parts, but for virtual ones (factorised.h)
    const Threats* threats = nullptr;  // if any
    bool pawn_pairs = false;           // if so, numbered behind the threats

    [[nodiscard]] bool has_relations() const { return threats != nullptr || pawn_pairs; }
    [[nodiscard]] bool wide() const { return num_inputs > 1U << 16; }  // then numbers are uint32, else uint16
};

// What a config says of a feature set beside its name.
struct FeatureSettings {
    // Of the own king's squares, seen from the own side: 64 from a1 to h8, or, if views are mirrored so that the own
    // king is on files a to d, 32 from a1, b1, c1, d1 to d8. Empty: as the set's rule says.
    std::vector<std::uint8_t> king_buckets;
};

// A part out of a rule: buckets(), kPlanes, plane(piece), bucket(colour, king), flip(colour, king).
template <class Rule>
[[nodiscard]] Part make_part(const Rule& rule, std::uint32_t first) {
    static_assert(Rule::kPlanes == 12 || Rule::kPlanes == 11);
    Part part;
    part.first = first;
    part.buckets = rule.buckets();
    part.planes = Rule::kPlanes;
    for (std::uint32_t piece = kPieces; piece-- > 0;) part.pieces[rule.plane(piece)] = static_cast<std::uint8_t>(piece);
    for (std::uint32_t view = 0; view < kViews; ++view) {
        const std::uint32_t colour = view / 64;
        const std::uint32_t bucket = rule.bucket(colour, view % 64);
        const std::uint32_t flip = rule.flip(colour, view % 64);
        part.bucket[view] = static_cast<std::uint8_t>(bucket);
        part.flip[view] = static_cast<std::uint8_t>(flip);
        for (std::uint32_t code = 0; code < kPieces; ++code) {
            part.numbers[view][code] = first + 64 * (bucket * Rule::kPlanes + rule.plane(code ^ colour)) + flip;
        }
    }
    return part;
}

// At least one part, in the order of their inputs; no relations.
[[nodiscard]] inline FeatureSet make_set(std::vector<Part> parts) {
    const std::uint32_t num_inputs = parts.back().end();
    const auto max_active = static_cast<std::uint32_t>(32 * parts.size());
    return {std::move(parts), num_inputs, max_active, num_inputs};
}

// The set of that name. Throws std::invalid_argument, a line that begins with the setting to change, if there is none
// or it can't have such settings.
[[nodiscard]] std::shared_ptr<const FeatureSet> make_feature_set(std::string_view name,
                                                                 const FeatureSettings& settings);

[[nodiscard]] std::vector<std::string> feature_set_names();

}  // namespace sparsepool::chess
