#include "numbers.cuh"

// Finds the index of each row of a table among the rows that each batch touched.
//
// Set by whoever compiles, besides numbers.cuh's:
//   LEAVES  how many batches there may be
//   INDEX   uint16 or uint32: the type of the rows' numbers

struct Touched {
    const INDEX* at[LEAVES];  // null: none
    uint32 count[LEAVES];
};

// row_numbers[s * rows + touched[i] - first_row] = i + 1 for the touched rows of batch s that are within `rows`. The
// array was 0. Items: the touched rows of each batch in turn, `longest` a batch.
KERNEL(128, 8)
find_rows(const Touched touched, uint32* __restrict__ row_numbers, uint32 longest, uint32 first_row, uint32 rows) {
    const uint64 at = item();
    const uint32 batch = static_cast<uint32>(at / longest), i = static_cast<uint32>(at % longest);
    UNROLL
    for (uint32 s = 0; s < LEAVES; ++s) {  // not indexed by a variable: that would copy `touched` to every thread
        if (batch != s || i >= touched.count[s]) continue;
        const uint32 row = touched.at[s][i] - first_row;  // wraps around to a large number for an earlier row
        if (row < rows) row_numbers[static_cast<uint64>(s) * rows + row] = i + 1;
    }
}
