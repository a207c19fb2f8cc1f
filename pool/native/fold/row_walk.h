#pragma once

#include <algorithm>
#include <vector>

#include "arrays/kernels.h"
#include "common/check.h"
#include "common/parallel.h"
#include "common/simd.h"
#include "fold/kernels.h"

// Several sources of rows read by several threads: each part's share, and its scratch, made before any part runs. What
// a source says it touched must be strictly ascending: std::invalid_argument if not.
namespace sparsepool {

class RowWalk {
  public:
    static constexpr std::size_t kUnit = 16;  // rows: whatever their length, two threads never share a cache line

    RowWalk(const std::vector<RowSource>& sources, std::size_t first_row, std::size_t threads)
        : sources_(sources),
          first_row_(first_row),
          threads_(threads),
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
        return {sources_.data(),       sources_.size(),        first_row_,           cursors_.data() + begin,
                found_.data() + begin, places_.data() + begin, joins_.data() + begin};
    }

    // A part's rows of begin .. end.
    Block block(std::size_t part, std::size_t begin, std::size_t end, std::size_t columns) const {
        return {begin + border(end - begin, kUnit, part, threads_),
                begin + border(end - begin, kUnit, part + 1, threads_), 0, columns};
    }

    // The same where only rows that a source touched take time: shares of about as many of those.
    Block touched_block(std::size_t part, std::size_t begin, std::size_t end, std::size_t columns) const {
        return {touched_border(part, begin, end), touched_border(part + 1, begin, end), 0, columns};
    }

  private:
    std::size_t touched_border(std::size_t part, std::size_t begin, std::size_t end) const {
        if (part == 0 || sources_.empty()) return part == 0 ? begin : end;
        const auto longer = [](const RowSource& a, const RowSource& b) { return a.touched.size < b.touched.size; };
        const Numbers& touched = std::max_element(sources_.begin(), sources_.end(), longer)->touched;
        const std::size_t first = lower_bound(touched, first_row_ + begin);
        const std::size_t last = lower_bound(touched, first_row_ + end);
        const std::size_t place = first + (last - first) * part / threads_;
        return part == threads_ || place == last ? end : touched[place] - first_row_;
    }

    const std::vector<RowSource>& sources_;
    std::size_t first_row_, threads_;
    std::vector<std::size_t> cursors_;
    std::vector<const float*> found_;
    std::vector<std::uint32_t> places_;
    std::vector<std::uint8_t> joins_;
};

}  // namespace sparsepool
