#pragma once

#include <cstdint>
#include <span>

#include "chess/native/files/units.h"
#include "formats/binpack/native/damage.h"

namespace sparsepool::binpack {

struct Chains {
    chess::UnitBlock block;  // its fault is not set
    std::optional<Damage> damage;
};

// The chains of a chunk, up to damage.
[[nodiscard]] Chains cut_chains(std::span<const std::uint8_t> payload, std::uint64_t payload_offset);

}  // namespace sparsepool::binpack
