#include "memory/lines.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "base/lists.h"
#include "common/crash_point.h"
#include "common/parallel.h"

namespace sparsepool {
namespace {

constexpr std::uint64_t kPrime = 0x100000001B3;  // FNV's
constexpr std::uint64_t kStart = 0xCBF29CE484222325;
constexpr std::size_t kUnit = 64;  // lines: a thread's share is whole pages

struct Line {
    std::uint64_t words[kLineBytes / sizeof(std::uint64_t)];
};

std::uint64_t hash_of(const Line& line, std::uint64_t number) {
    std::uint64_t hash = kStart;
    const auto add = [&](std::uint64_t word) {
        hash = (hash ^ word) * kPrime;
        hash ^= hash >> 32;
    };
    add(number);
    for (const std::uint64_t word : line.words) add(word);
    return hash;
}

// Line i of `size` bytes.
Line line_of(const std::uint8_t* data, std::size_t size, std::size_t i) {
    Line line{};
    const std::size_t begin = i * kLineBytes;
    if (begin + kLineBytes <= size) {
        std::memcpy(&line, data + begin, kLineBytes);
    } else {
        std::memcpy(&line, data + begin, size - begin);
    }
    return line;
}

std::size_t lines_in(std::size_t size) { return (size + kLineBytes - 1) / kLineBytes; }

// The sum of what part(first, last) gives for shares of `total`, cut at multiples of `unit`.
std::uint64_t sum_of_parts(std::size_t total, std::size_t unit, std::size_t threads, const auto& part) {
    check_threads(threads);
    std::vector<std::uint64_t> sums(threads);
    run_parts(threads, [&](std::size_t p) {
        sums[p] = part(border(total, unit, p, threads), border(total, unit, p + 1, threads));
    });
    std::uint64_t sum = 0;
    for (const std::uint64_t each : sums) sum += each;
    return sum;
}

}  // namespace

std::uint64_t sum_of_lines(const std::uint8_t* data, std::size_t size, std::uint64_t first_line, std::size_t threads) {
    return sum_of_parts(lines_in(size), kUnit, threads, [&](std::size_t first, std::size_t last) {
        std::uint64_t sum = 0;
        for (std::size_t i = first; i < last; ++i) sum += hash_of(line_of(data, size, i), first_line + i);
        return sum;
    });
}

std::uint64_t copy_lines(std::uint8_t* to, const std::uint8_t* from, std::size_t size, std::uint64_t first_line,
                         std::size_t threads) {
    return sum_of_parts(lines_in(size), kUnit, threads, [&](std::size_t first, std::size_t last) {
        std::uint64_t sum = 0;
        for (std::size_t i = first; i < last; ++i) {
            const Line line = line_of(from, size, i);
            sum += hash_of(line, first_line + i);
            std::memcpy(to + i * kLineBytes, &line, kLineBytes);
        }
        return sum;
    });
}

std::uint64_t copy_changed_lines(std::uint8_t* to, const std::uint8_t* from, std::size_t size, std::uint64_t first_line,
                                 const std::uint64_t* changed, std::size_t row_nbytes, std::size_t threads) {
    const std::size_t rows = size / row_nbytes;
    const std::size_t whole = lines_in(size) * kLineBytes;
    const auto share = [&](std::size_t first, std::size_t last) {  // of words: 64 rows are whole lines
        std::uint64_t difference = 0;
        std::size_t next = first * row_nbytes;  // 64 rows of row_nbytes bytes are row_nbytes lines
        for (std::size_t w = first; w < last; ++w) {
            for (std::uint64_t bits = changed[w]; bits != 0; bits &= bits - 1) {
                const std::size_t row = w * 64 + static_cast<std::size_t>(std::countr_zero(bits));
                if (row >= rows) break;
                const std::size_t end = ((row + 1) * row_nbytes - 1) / kLineBytes;
                for (next = std::max(next, row * row_nbytes / kLineBytes); next <= end; ++next) {
                    const Line line = line_of(from, size, next);
                    difference +=
                        hash_of(line, first_line + next) - hash_of(line_of(to, whole, next), first_line + next);
                    std::memcpy(to + next * kLineBytes, &line, kLineBytes);
                }
            }
        }
        return difference;
    };
    const std::size_t words = (rows + 63) / 64;
    const std::uint64_t half = sum_of_parts(words / 2, 1, threads, share);
    crash_point("coordinator.mid_snapshot");
    return half + sum_of_parts(words - words / 2, 1, threads, [&](std::size_t first, std::size_t last) {
               return share(words / 2 + first, words / 2 + last);
           });
}

}  // namespace sparsepool
