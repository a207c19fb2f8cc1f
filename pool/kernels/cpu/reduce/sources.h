#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/lists.h"
#include "common/check.h"
#include "common/parallel.h"
#include "common/simd.h"
#include "reduce/kernels.h"
#include "reduce/tree.h"

// Gradients that are added up along the tree (tree.h), and where in it each stands.
namespace sparsepool {

struct Sources {
    std::vector<Source> all;
    std::vector<std::uint32_t> leaves;  // strictly ascending
};

// numbers(entry) is the Source of an entry.
inline Held held_by(const auto& entries, const auto& numbers) {
    std::size_t narrow = 0;
    for (const auto& entry : entries) narrow += numbers(entry).bfloat16 ? 1 : 0;
    if (narrow == 0) return Held::kFloat32;
    return narrow == entries.size() ? Held::kBFloat16 : Held::kBoth;
}

// What is joined after which source; for kernels.
class Joins {
  public:
    explicit Joins(const Sources& sources)
        : joins_(sources.leaves.size()), held_(held_by(sources.all, [](const Source& source) { return source; })) {
        find_joins(sources.leaves.data(), sources.leaves.size(), joins_.data());
    }

    Addends of(const Sources& sources) const { return {sources.all.data(), joins_.data(), joins_.size()}; }
    Held held() const { return held_; }

  private:
    std::vector<std::uint8_t> joins_;
    Held held_;
};

// Several sources of rows read by several threads: each part's share, and its scratch, made before any part runs. What
// a source says it touched must be strictly ascending: std::invalid_argument if not.

class RowWalk {
  public:
    static constexpr std::size_t kUnit = 16;  // rows: whatever their length, two threads never share a cache line

    RowWalk(const std::vector<RowSource>& sources, std::size_t first_row, std::size_t threads)
        : sources_(sources),
          first_row_(first_row),
          threads_(threads),
          held_(held_by(sources, [](const RowSource& source) { return source.rows; })),
          cursors_(threads * sources.size()),
          found_(threads * sources.size()),
          places_(threads * sources.size()),
          joins_(threads * sources.size()) {
        for (std::size_t s = 0; s < sources.size(); ++s) {
            require(simd::kernels<ListKernels>().ascending(sources[s].touched, true), "touched of source ", s,
                    " is not strictly ascending");
        }
    }

    RowSources of(std::size_t part) {
        const std::size_t begin = part * sources_.size();
        return {sources_.data(),       sources_.size(),        first_row_,           held_, cursors_.data() + begin,
                found_.data() + begin, places_.data() + begin, joins_.data() + begin};
    }

    // A part's rows, in two blocks, of a table of so many. With `touched_only`, rows that no source touched take no
    // time: shares of about as many touched ones.
    std::pair<Block, Block> halves(std::size_t part, std::size_t rows, std::size_t columns, bool touched_only) const {
        const std::size_t begin = touched_only ? touched_border(part, rows) : border(rows, kUnit, part, threads_);
        const std::size_t end = touched_only ? touched_border(part + 1, rows) : border(rows, kUnit, part + 1, threads_);
        const std::size_t middle = begin + border(end - begin, kUnit, 1, 2);
        return {{begin, middle, 0, columns}, {middle, end, 0, columns}};
    }

  private:
    std::size_t touched_border(std::size_t part, std::size_t rows) const {
        if (part == 0 || sources_.empty()) return part == 0 ? 0 : rows;
        const auto longer = [](const RowSource& a, const RowSource& b) { return a.touched.size < b.touched.size; };
        const Numbers& touched = std::max_element(sources_.begin(), sources_.end(), longer)->touched;
        const std::size_t first = lower_bound(touched, first_row_);
        const std::size_t last = lower_bound(touched, first_row_ + rows);
        const std::size_t border_index = first + (last - first) * part / threads_;
        return part == threads_ || border_index == last ? rows : touched[border_index] - first_row_;
    }

    const std::vector<RowSource>& sources_;
    std::size_t first_row_, threads_;
    Held held_;
    std::vector<std::size_t> cursors_;
    std::vector<Source> found_;
    std::vector<std::uint32_t> places_;
    std::vector<std::uint8_t> joins_;
};

}  // namespace sparsepool
