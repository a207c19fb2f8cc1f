#pragma once

#include <cstddef>
#include <cstdint>

// Numbers, lists of them and pieces of matrices, as the hot code takes them.
namespace sparsepool {

// The upper half of a float32 whose lower half is zero.
struct BFloat16 {
    std::uint16_t bits;
};

// Unsigned numbers in 16 or 32 bits.
struct Numbers {
    const void* data = nullptr;
    std::size_t size = 0;
    bool wide = false;  // uint32

    // Inlined always, as what is shared by the builds for all levels must be: the linker would have several to choose
    // from.
    [[gnu::always_inline]] std::uint32_t operator[](std::size_t i) const {
        return wide ? static_cast<const std::uint32_t*>(data)[i] : static_cast<const std::uint16_t*>(data)[i];
    }
};

// Index of the first number that is at least `value`, by bisection.
[[gnu::always_inline]] inline std::size_t lower_bound(const Numbers& numbers, std::size_t value) {
    std::size_t first = 0;
    std::size_t last = numbers.size;
    while (first < last) {
        const std::size_t middle = first + (last - first) / 2;
        if (numbers[middle] < value) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    return first;
}

// Rectangle of outputs that one thread owns. With an order, its rows are places in that order.
struct Block {
    std::size_t first_row, last_row;
    std::size_t first_column, last_column;
};

// For kernel files: lists of a type known at compile time.
namespace {

template <class Number>
const Number* typed(const Numbers& numbers) {
    return static_cast<const Number*>(numbers.data);
}

}  // namespace
}  // namespace sparsepool
