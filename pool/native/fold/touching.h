#pragma once

#include "fold/kernels.h"
#include "fold/tree.h"

// Row by row, which of several sources touched it.
namespace sparsepool {
namespace {

// row(r, rows of the sources that touched it) for r of the block, ascending.
template <class Row>
void each_row(const RowSources& sources, std::size_t columns, const Block& block, const Row& row) {
    for (std::size_t s = 0; s < sources.count; ++s) {
        sources.cursor[s] = lower_bound(sources.all[s].touched, sources.first_row + block.first_row);
    }
    for (std::size_t r = block.first_row; r < block.last_row; ++r) {
        std::size_t touching = 0;
        for (std::size_t s = 0; s < sources.count; ++s) {
            const RowSource& source = sources.all[s];
            std::size_t& cursor = sources.cursor[s];
            if (cursor < source.touched.size && source.touched[cursor] == sources.first_row + r) {
                sources.places[touching] = source.place;
                sources.found[touching++] = source.rows + r * columns;
                ++cursor;
            }
        }
        find_joins(sources.places, touching, sources.joins);
        row(r, Addends{sources.found, sources.joins, touching});
    }
}

}  // namespace
}  // namespace sparsepool
