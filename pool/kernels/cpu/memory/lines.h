#pragma once

#include <cstddef>
#include <cstdint>

// A sum over memory that can follow changes of parts of it: of 64-byte lines, each a hash of its bytes and its number,
// added up modulo 2^64. Any change within one 8-byte word of a line changes the sum for certain; any other goes
// unnoticed with a probability of about 2^-64. The hash is that of FNV with 64-bit words (Fowler, Noll and Vo, 1991)
// and a shift, so that high bits reach low ones.
//
// A last line that is not complete counts as if zeros followed. Lines are numbered from `first_line` on.
namespace sparsepool {

constexpr std::size_t kLineBytes = 64;

std::uint64_t sum_of_lines(const std::uint8_t* data, std::size_t size, std::uint64_t first_line, std::size_t threads);

// Copies all bytes, and zeros to the end of the last line. Returns the sum.
std::uint64_t copy_lines(std::uint8_t* to, const std::uint8_t* from, std::size_t size, std::uint64_t first_line,
                         std::size_t threads);

// Copies the lines that have a part of a row whose bit in `changed` is set; rows of `row_nbytes`, bits as in rows.h.
// Returns by how much the sum of `to` changes.
std::uint64_t copy_changed_lines(std::uint8_t* to, const std::uint8_t* from, std::size_t size, std::uint64_t first_line,
                                 const std::uint64_t* changed, std::size_t row_nbytes, std::size_t threads);

}  // namespace sparsepool
