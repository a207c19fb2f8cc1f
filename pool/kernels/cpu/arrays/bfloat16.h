#pragma once

#include <cstdint>

namespace sparsepool {

// The upper half of a float32 whose lower half is zero.
struct BFloat16 {
    std::uint16_t bits;
};

}  // namespace sparsepool
