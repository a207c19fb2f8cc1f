// Several sources of rows read by several threads: each part's share, and its scratch, made before any part runs.
#pragma once

#include <vector>

#include "kernels.h"
#include "parallel.h"

namespace sparsepool {

class RowWalk {
public:
    static constexpr std::size_t UNIT = 16;  // rows: whatever their length, two threads never share a cache line

    RowWalk(const std::vector<RowSource>& sources, std::size_t first_row, std::size_t threads)
        : sources_(sources),
          first_row_(first_row),
          threads_(threads),
          cursors_(threads * sources.size()),
          found_(threads * sources.size()) {}

    RowSources of(std::size_t part) {
        const std::size_t begin = part * sources_.size();
        return {sources_.data(), sources_.size(), first_row_, cursors_.data() + begin, found_.data() + begin};
    }

    // A part's rows of begin .. end.
    Block block(std::size_t part, std::size_t begin, std::size_t end, std::size_t columns) const {
        return {begin + border(end - begin, UNIT, part, threads_), begin + border(end - begin, UNIT, part + 1, threads_),
                0, columns};
    }

private:
    const std::vector<RowSource>& sources_;
    std::size_t first_row_, threads_;
    std::vector<std::size_t> cursors_;
    std::vector<const float*> found_;
};

}  // namespace sparsepool
