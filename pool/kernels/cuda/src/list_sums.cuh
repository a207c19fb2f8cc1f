#pragma once

#include "numbers.cuh"

// Sums of table rows over a list of their numbers, each times its value if there are values.
//
// Set by whoever compiles, besides numbers.cuh's:
//   INDEX   uint16 or uint32: the type of the rows' numbers
//   VALUES  1: each row is multiplied by a value
//   NARROW  1: the table is bfloat16, whatever BFLOAT16 says of all else

constexpr uint32 kInFlight = 4;  // rows that are loaded before the first is added

#if NARROW
using Row = uint16;
static __device__ __forceinline__ Floats load_row(const Row* from) { return load_narrow(from); }
#else
using Row = Number;
static __device__ __forceinline__ Floats load_row(const Row* from) { return load(from); }
#endif

// Sums table rows numbers[begin] .. numbers[end - 1].
struct Lists {
    const Row* __restrict__ table;  // [rows, columns]
    const INDEX* __restrict__ numbers;
    const float* __restrict__ values;
    uint32 columns;

    __device__ __forceinline__ Floats row(uint32 at, uint32 column) const {
        return load_row(table + static_cast<uint64>(numbers[at]) * columns + column);
    }

    __device__ __forceinline__ void add_row(Floats& total, const Floats& row, [[maybe_unused]] uint32 at) const {
#if VALUES
        add(total, scaled(row, values[at]));
#else
        add(total, row);
#endif
    }

    // Adds the rows to `total`, one after another.
    __device__ __forceinline__ void add_up(Floats& total, uint32 begin, uint32 end, uint32 column) const {
        uint32 at = begin;
        for (; at + kInFlight <= end; at += kInFlight) {
            Floats rows[kInFlight];
            UNROLL
            for (uint32 k = 0; k < kInFlight; ++k) rows[k] = row(at + k, column);
            UNROLL
            for (uint32 k = 0; k < kInFlight; ++k) add_row(total, rows[k], at + k);
        }
        Floats tail[kInFlight - 1];  // fewer rows than kInFlight
        UNROLL
        for (uint32 k = 0; k < kInFlight - 1; ++k) {
            if (at + k < end) tail[k] = row(at + k, column);
        }
        UNROLL
        for (uint32 k = 0; k < kInFlight - 1; ++k) {
            if (at + k < end) add_row(total, tail[k], at + k);
        }
    }
};
