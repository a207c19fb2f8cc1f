#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "chess/formats/binpack/native/damage.h"
#include "chess/native/units/units.h"

namespace sparsepool::binpack {

struct Chains {
    chess::UnitBlock block;  // its fault is not set
    std::optional<Damage> damage;
};

// The chains of a chunk, up to damage.
[[nodiscard]] Chains cut_chains(std::span<const std::uint8_t> payload, std::uint64_t payload_offset,
                                const chess::Demands& demands = {});

// The first entry of each chain, which is good. Chain i begins at begins[i].
[[nodiscard]] std::vector<chess::Record> first_entries(std::span<const std::uint8_t> chains,
                                                       std::span<const std::uint64_t> begins);

}  // namespace sparsepool::binpack
