#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chess/native/units/units.h"

// Units in the order of random numbers, their draws: what a shuffle sorts, in memory or on disk.
//
// A drawn unit is its draw (8 bytes), its size and its entries (4 bytes each), and its own bytes. Drawn units lie one
// behind the other, so that moving one touches one place of memory.
namespace sparsepool::chess {

inline constexpr std::size_t kDrawnHeader = 16;
inline constexpr unsigned kBucketBits = 8;
inline constexpr std::size_t kBuckets = std::size_t{1} << kBucketBits;

// Some units with their draws, all of one length.
struct UnitsAndDraws {
    std::string_view bytes;
    std::span<const std::uint64_t> ends;  // ascending, within the bytes
    std::span<const std::uint32_t> entries;
    std::span<const std::uint64_t> draws;
};

struct Buckets {
    std::string units;                              // drawn units by bucket, in each in the order of the input
    std::array<std::uint64_t, kBuckets + 1> begin;  // of each bucket in `units`; the last one's end
};

// Partitions units into buckets by kBucketBits of their draws, from bit `shift` on: a pass of a radix sort. Throws
// std::length_error for a unit of 4 GiB or more.
[[nodiscard]] Buckets partition_into_buckets(std::span<const UnitsAndDraws> blocks, unsigned shift);
[[nodiscard]] Buckets partition_into_buckets(std::string_view drawn, unsigned shift);

// Returns where each drawn unit begins, by ascending draws; equal draws keep their order. Throws std::out_of_range if
// the last unit is truncated.
[[nodiscard]] std::vector<std::uint64_t> sort_by_draw(std::string_view drawn);

// Returns the units at these offsets, in that order, without their draws. Throws std::out_of_range for an offset that
// is not one of sort_by_draw.
[[nodiscard]] UnitBlock units_at(std::string_view drawn, std::span<const std::uint64_t> offsets);

}  // namespace sparsepool::chess
