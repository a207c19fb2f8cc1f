#pragma once

#include "reduce/kernels.h"
#include "reduce/tree.h"

// Walks over the rows of a table, with the sources that touched each row.
namespace sparsepool {
namespace {

inline void seek_cursors(const RowSources& sources, const Block& block) {
    for (std::size_t s = 0; s < sources.count; ++s) {
        sources.cursors[s] = lower_bound(sources.all[s].touched, sources.first_row + block.first_row);
    }
}

// Row r of all sources that touched it. Advances their cursors.
inline TreeSources sources_of_row(const RowSources& sources, std::size_t columns, std::size_t r) {
    std::size_t count = 0;
    for (std::size_t s = 0; s < sources.count; ++s) {
        const RowSource& source = sources.all[s];
        std::size_t& cursor = sources.cursors[s];
        const bool touched_row = cursor < source.touched.size && source.touched[cursor] == sources.first_row + r;
        if (touched_row) {
            sources.leaves[count] = source.leaf;
            sources.row_sources[count] = source.row(r, cursor, columns);
            ++count;
            ++cursor;
        }
    }
    if (count > 2) {
        find_joins(sources.leaves, count, sources.joins);
    } else if (count > 0) {  // the result of find_joins, without the call
        sources.joins[0] = 0;
        sources.joins[count - 1] = static_cast<std::uint8_t>(count - 1);
    }
    return {sources.row_sources, sources.joins, count};
}

// Calls visit(r, sources of row r) for all rows of the block, ascending.
template <class Visit>
void visit_all_rows(const RowSources& sources, std::size_t columns, const Block& block, const Visit& visit) {
    seek_cursors(sources, block);
    for (std::size_t r = block.first_row; r < block.last_row; ++r) visit(r, sources_of_row(sources, columns, r));
}

// Prefetches the row that a source touched some rows after its cursor. Calls prefetch(r) for what else the row needs.
template <class Prefetch>
[[gnu::always_inline]] inline void prefetch_ahead(const RowSource& source, std::size_t cursor,
                                                  const RowSources& sources, std::size_t columns, std::size_t end,
                                                  const Prefetch& prefetch) {
    constexpr std::size_t kAhead = 16;  // rows
    constexpr std::size_t kLineBytes = 64;
    const std::size_t ahead = cursor + kAhead;
    if (ahead >= source.touched.size) return;
    const std::size_t feature = source.touched[ahead];
    if (feature >= end) return;
    const std::size_t r = feature - sources.first_row;
    const char* row = static_cast<const char*>(source.row(r, ahead, columns).numbers);
    for (std::size_t k = 0; k < source.row_bytes(columns); k += kLineBytes) __builtin_prefetch(row + k);
    prefetch(r);
}

// Calls visit(r, sources of row r) for the rows of the block that any source touched, ascending. Rows that no source
// touched take no time. prefetch(r) is called some rows before visit(r).
template <class Prefetch, class Visit>
void visit_touched_rows(const RowSources& sources, std::size_t columns, const Block& block, const Prefetch& prefetch,
                        const Visit& visit) {
    seek_cursors(sources, block);
    const std::size_t end = sources.first_row + block.last_row;
    if (sources.count == 1) {  // no search for the next row: twice as fast
        const RowSource& source = sources.all[0];
        const std::size_t last = lower_bound(source.touched, end);
        for (std::size_t cursor = sources.cursors[0]; cursor < last; ++cursor) {
            prefetch_ahead(source, cursor, sources, columns, end, prefetch);
            const std::size_t r = source.touched[cursor] - sources.first_row;
            const Source row = source.row(r, cursor, columns);
            const std::uint8_t joins = 0;
            visit(r, TreeSources{&row, &joins, 1});
        }
        return;
    }
    for (;;) {
        std::size_t next = end;  // the least feature at a cursor
        for (std::size_t s = 0; s < sources.count; ++s) {
            const Numbers& touched = sources.all[s].touched;
            const std::size_t cursor = sources.cursors[s];
            if (cursor >= touched.size || touched[cursor] >= next) continue;
            next = touched[cursor];
        }
        if (next == end) return;
        for (std::size_t s = 0; s < sources.count; ++s) {
            prefetch_ahead(sources.all[s], sources.cursors[s], sources, columns, end, prefetch);
        }
        const std::size_t r = next - sources.first_row;
        visit(r, sources_of_row(sources, columns, r));
    }
}

}  // namespace
}  // namespace sparsepool
