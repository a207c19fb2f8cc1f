#include "numbers.cuh"

// Where each row of a table lies among the rows that batches touched.
//
// Set by whoever compiles, besides numbers.cuh's:
//   LEAVES  how many batches there may be
//   INDEX   uint16 or uint32: the type of the rows' numbers

struct Touched {
    const INDEX* at[LEAVES];  // null: none
    uint32 count[LEAVES];
};

// found[s * rows + touched[i] - first_row] = i + 1 for those of batch s within `rows`. All of `found` was 0. Items: the
// touched rows of the first batch, then of the others, `longest` of each.
KERNEL(128, 8)
find_rows(const Touched touched, uint32* __restrict__ found, uint32 longest, uint32 first_row, uint32 rows) {
    const uint64 at = item();
    const uint32 batch = static_cast<uint32>(at / longest), i = static_cast<uint32>(at % longest);
    UNROLL
    for (uint32 s = 0; s < LEAVES; ++s) {  // not indexed by a variable: that would copy `touched` to every thread
        if (batch != s || i >= touched.count[s]) continue;
        const uint32 row = touched.at[s][i] - first_row;  // of an earlier row: more than there are
        if (row < rows) found[static_cast<uint64>(s) * rows + row] = i + 1;
    }
}
