#include "numbers.cuh"

// Sums of a matrix' rows, kRows at a time: `out` has a row for every kRows rows of `in`. Run again on its own result
// until one row is left, it is the sum of all rows along a fixed tree.

constexpr uint32 kRows = 32;
constexpr uint32 kInFlight = 8;

KERNEL(128, 8)
column_sums(const Number* __restrict__ in, float* __restrict__ out, uint32 rows, uint32 columns) {
    const WorkItem work = work_item();
    if (work.item * kRows >= rows || work.column >= columns) return;
    const uint32 end = rows - work.item * kRows < kRows ? rows : (work.item + 1) * kRows;
    uint32 row = work.item * kRows;
    const Number* from = in + static_cast<uint64>(row) * columns + work.column;
    Floats total = zeros();
    for (; row + kInFlight <= end; row += kInFlight) {
        Floats numbers[kInFlight];
        UNROLL
        for (uint32 k = 0; k < kInFlight; ++k) numbers[k] = load(from + static_cast<uint64>(k) * columns);
        UNROLL
        for (uint32 k = 0; k < kInFlight; ++k) add(total, numbers[k]);
        from += static_cast<uint64>(kInFlight) * columns;
    }
    for (; row < end; ++row, from += columns) add(total, load(from));
    store_floats(total, out + static_cast<uint64>(work.item) * columns + work.column);
}
