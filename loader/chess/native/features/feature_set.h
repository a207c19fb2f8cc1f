#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

// What of a position is an input of the network. A feature set is data: tables from which rows and columns of a batch
// are made, by code that is the same for all sets (batch/) and can be written for vectors once.
namespace sparsepool::chess {

inline constexpr unsigned kViews = 128;  // a view is 64 * colour + square of that colour's king

// Every piece gives one number: first + 64 * (bucket * planes + plane) + (square ^ flip). The bucket and the flip
// depend on the view, the plane on the piece as that colour sees it: own pawn, enemy pawn, own knight, ...
struct Part {
    std::uint32_t first = 0;    // a multiple of 64
    std::uint32_t buckets = 1;  // at most 256
    std::uint32_t planes = 12;  // 11: both kings share the last
    std::uint8_t bucket[kViews] = {};
    std::uint8_t flip[kViews] = {};          // 0, 7 (files mirrored), 56 (ranks mirrored) or 63
    std::uint32_t numbers[kViews][16] = {};  // by piece code (record.h), for square 0

    [[nodiscard]] constexpr std::uint32_t plane_inputs() const { return planes * 64; }
};

struct Threats;  // threats.h

// A set of inputs, seen by either side: "own" is the side to move. Immutable; lives as long as the process.
//
// Relations are inputs of two pieces: threats and pairs of pawns. A bag holds those that fit in max_active, which is
// all in any position of a game; its pieces come first.
struct FeatureSet {
    std::string_view name;
    std::uint32_t num_inputs = 0;
    std::uint32_t max_active = 0;       // of one perspective of one position: 32 a part, and relations
    std::span<const Part> parts;        // one behind the other, also within a bag
    const Threats* threats = nullptr;   // if any, numbered behind the parts
    bool pawn_pairs = false;            // if so, numbered behind the threats

    [[nodiscard]] bool has_relations() const { return threats != nullptr || pawn_pairs; }
    [[nodiscard]] std::uint32_t first_relation() const {
        std::uint32_t inputs = 0;
        for (const Part& part : parts) inputs += part.buckets * part.plane_inputs();
        return inputs;
    }
    [[nodiscard]] bool wide() const { return num_inputs > 1U << 16; }  // then numbers are uint32, else uint16
};

// A part out of a rule: kBuckets, kPlanes, bucket(colour, king), flip(colour, king).
template <class Rule>
[[nodiscard]] constexpr Part make_part(std::uint32_t first) {
    static_assert(Rule::kBuckets <= 256 && (Rule::kPlanes == 12 || Rule::kPlanes == 11));
    Part part;
    part.first = first;
    part.buckets = Rule::kBuckets;
    part.planes = Rule::kPlanes;
    for (std::uint32_t view = 0; view < kViews; ++view) {
        const std::uint32_t colour = view / 64;
        const std::uint32_t bucket = Rule::bucket(colour, view % 64);
        const std::uint32_t flip = Rule::flip(colour, view % 64);
        part.bucket[view] = static_cast<std::uint8_t>(bucket);
        part.flip[view] = static_cast<std::uint8_t>(flip);
        for (std::uint32_t code = 0; code < 12; ++code) {
            const std::uint32_t seen = code ^ colour;
            const std::uint32_t plane = seen < Rule::kPlanes ? seen : Rule::kPlanes - 1;
            part.numbers[view][code] = first + 64 * (bucket * Rule::kPlanes + plane) + flip;
        }
    }
    return part;
}

// The set of that name, or null.
[[nodiscard]] const FeatureSet* find_feature_set(std::string_view name);

[[nodiscard]] std::vector<std::string_view> feature_set_names();

}  // namespace sparsepool::chess
