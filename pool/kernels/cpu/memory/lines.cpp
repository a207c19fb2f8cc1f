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

constexpr std::uint64_t kPrime = 0x100000001B3;  // the constants of FNV
constexpr std::uint64_t kStart = 0xCBF29CE484222325;
constexpr std::size_t kUnit = 64;  // lines: a thread's share is full pages

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

// Line i of `size` bytes. Zeros follow a line that is not complete.
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

// Calls part(first, last) for each thread's share of `total`, cut at multiples of `unit`. Returns the sum of the
// results.
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

namespace {

// Calls visit(row) for each set bit of words [first_word, last_word), ascending.
void visit_marked_rows(const std::uint64_t* words, std::size_t first_word, std::size_t last_word, const auto& visit) {
    for (std::size_t w = first_word; w < last_word; ++w) {
        for (std::uint64_t bits = words[w]; bits != 0; bits &= bits - 1) {  // clears the lowest bit
            visit(w * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
        }
    }
}

}  // namespace

std::uint64_t copy_changed_lines(std::uint8_t* to, const std::uint8_t* from, std::size_t size, std::uint64_t first_line,
                                 const std::uint64_t* changed, std::size_t row_nbytes, std::size_t threads) {
    const std::size_t num_rows = size / row_nbytes;
    const std::size_t padded_size = lines_in(size) * kLineBytes;
    // A share of the words: the 64 rows of a word are row_nbytes full lines.
    const auto copy_share = [&](std::size_t first_word, std::size_t last_word) {
        std::uint64_t difference = 0;
        std::size_t next_line = first_word * row_nbytes;  // the first line that is not copied yet
        visit_marked_rows(changed, first_word, last_word, [&](std::size_t row) {
            if (row >= num_rows) return;
            const std::size_t row_line = row * row_nbytes / kLineBytes;
            const std::size_t last_line = ((row + 1) * row_nbytes - 1) / kLineBytes;
            for (next_line = std::max(next_line, row_line); next_line <= last_line; ++next_line) {
                const std::uint64_t number = first_line + next_line;
                const Line line = line_of(from, size, next_line);
                difference += hash_of(line, number) - hash_of(line_of(to, padded_size, next_line), number);
                std::memcpy(to + next_line * kLineBytes, &line, kLineBytes);
            }
        });
        return difference;
    };
    const std::size_t num_words = (num_rows + 63) / 64;
    const std::size_t middle = num_words / 2;
    const std::uint64_t first_half = sum_of_parts(middle, 1, threads, copy_share);
    crash_point("coordinator.mid_snapshot");
    const std::uint64_t second_half =
        sum_of_parts(num_words - middle, 1, threads, [&](std::size_t first_word, std::size_t last_word) {
            return copy_share(middle + first_word, middle + last_word);
        });
    return first_half + second_half;
}

}  // namespace sparsepool
