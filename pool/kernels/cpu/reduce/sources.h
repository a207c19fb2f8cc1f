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

// Gradients that are added up along the tree (tree.h), each at a leaf.
namespace sparsepool {

struct Sources {
    std::vector<Source> all;
    std::vector<std::uint32_t> leaves;  // strictly ascending
};

// source_of(entry) returns the Source of an entry.
inline SourceType type_of_sources(const auto& entries, const auto& source_of) {
    std::size_t num_narrow = 0;
    for (const auto& entry : entries) num_narrow += source_of(entry).bfloat16 ? 1 : 0;
    if (num_narrow == 0) return SourceType::kFloat32;
    return num_narrow == entries.size() ? SourceType::kBFloat16 : SourceType::kMixed;
}

// The joins of dense sources (find_joins of tree.h), for kernels.
class JoinPlan {
  public:
    explicit JoinPlan(const Sources& sources)
        : joins_(sources.leaves.size()),
          source_type_(type_of_sources(sources.all, [](const Source& source) { return source; })) {
        find_joins(sources.leaves.data(), sources.leaves.size(), joins_.data());
    }

    TreeSources with(const Sources& sources) const { return {sources.all.data(), joins_.data(), joins_.size()}; }
    SourceType source_type() const { return source_type_; }

  private:
    std::vector<std::uint8_t> joins_;
    SourceType source_type_;
};

// Partitions the rows of a table among threads, with scratch memory for each. The touched rows of each source must
// ascend strictly: std::invalid_argument if not.
class RowPartition {
  public:
    static constexpr std::size_t kUnit =
        16;  // rows: of any length they are full cache lines, which threads don't share

    RowPartition(const std::vector<RowSource>& sources, std::size_t first_row, std::size_t threads)
        : sources_(sources),
          first_row_(first_row),
          threads_(threads),
          type_(type_of_sources(sources, [](const RowSource& source) { return source.rows; })),
          cursors_(threads * sources.size()),
          row_sources_(threads * sources.size()),
          leaves_(threads * sources.size()),
          joins_(threads * sources.size()) {
        for (std::size_t s = 0; s < sources.size(); ++s) {
            require(simd::kernels<ListKernels>().ascending(sources[s].touched, true), "touched of source ", s,
                    " is not strictly ascending");
        }
    }

    // All sources, with the scratch memory of a part.
    RowSources sources_of(std::size_t part) {
        const std::size_t begin = part * sources_.size();
        return {.all = sources_.data(),
                .count = sources_.size(),
                .first_row = first_row_,
                .type = type_,
                .cursors = cursors_.data() + begin,
                .row_sources = row_sources_.data() + begin,
                .leaves = leaves_.data() + begin,
                .joins = joins_.data() + begin};
    }

    // The rows of a part, as two blocks of about the same size. With `touched_only`, rows that no source touched take
    // no time: then each part has about as many touched rows.
    std::pair<Block, Block> split_part(std::size_t part, std::size_t rows, std::size_t columns,
                                       bool touched_only) const {
        const std::size_t begin = touched_only ? touched_border(part, rows) : border(rows, kUnit, part, threads_);
        const std::size_t end = touched_only ? touched_border(part + 1, rows) : border(rows, kUnit, part + 1, threads_);
        const std::size_t middle = begin + border(end - begin, kUnit, 1, 2);
        return {{begin, middle, 0, columns}, {middle, end, 0, columns}};
    }

  private:
    // The first row of a part, such that parts have as many touched rows of the source that touched most.
    std::size_t touched_border(std::size_t part, std::size_t rows) const {
        if (part == 0) return 0;
        if (part == threads_ || sources_.empty()) return rows;
        const auto has_fewer = [](const RowSource& a, const RowSource& b) { return a.touched.size < b.touched.size; };
        const Numbers& touched = std::max_element(sources_.begin(), sources_.end(), has_fewer)->touched;
        const std::size_t first = lower_bound(touched, first_row_);
        const std::size_t last = lower_bound(touched, first_row_ + rows);
        const std::size_t border_index = first + (last - first) * part / threads_;
        return border_index == last ? rows : touched[border_index] - first_row_;
    }

    const std::vector<RowSource>& sources_;
    std::size_t first_row_, threads_;
    SourceType type_;
    std::vector<std::size_t> cursors_;
    std::vector<Source> row_sources_;
    std::vector<std::uint32_t> leaves_;
    std::vector<std::uint8_t> joins_;
};

}  // namespace sparsepool
