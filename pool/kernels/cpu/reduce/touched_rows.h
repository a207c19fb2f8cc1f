#pragma once

#include "reduce/kernels.h"
#include "reduce/tree.h"

// Row by row, which of several sources touched it.
namespace sparsepool {
namespace {

inline void begin_rows(const RowSources& sources, const Block& block) {
    for (std::size_t s = 0; s < sources.count; ++s) {
        sources.cursor[s] = lower_bound(sources.all[s].touched, sources.first_row + block.first_row);
    }
}

// Row r of the sources that touched it, whose cursors move on.
inline Addends touching_row(const RowSources& sources, std::size_t columns, std::size_t r) {
    std::size_t touching = 0;
    for (std::size_t s = 0; s < sources.count; ++s) {
        const RowSource& source = sources.all[s];
        std::size_t& cursor = sources.cursor[s];
        if (cursor < source.touched.size && source.touched[cursor] == sources.first_row + r) {
            sources.leaves[touching] = source.leaf;
            sources.found[touching++] = source.row(r, cursor, columns);
            ++cursor;
        }
    }
    if (touching > 2) {
        find_joins(sources.leaves, touching, sources.joins);
    } else if (touching > 0) {
        sources.joins[0] = 0;  // as find_joins says
        sources.joins[touching - 1] = static_cast<std::uint8_t>(touching - 1);
    }
    return {sources.found, sources.joins, touching};
}

// row(r, rows of the sources that touched it) for r of the block, ascending.
template <class Row>
void each_row(const RowSources& sources, std::size_t columns, const Block& block, const Row& row) {
    begin_rows(sources, block);
    for (std::size_t r = block.first_row; r < block.last_row; ++r) row(r, touching_row(sources, columns, r));
}

// Of a source the row that comes some places after its cursor, and what soon(r) asks for, are fetched from far memory.
template <class Soon>
[[gnu::always_inline]] inline void fetch_soon(const RowSource& source, std::size_t cursor, const RowSources& sources,
                                              std::size_t columns, std::size_t end, const Soon& soon) {
    constexpr std::size_t kAhead = 16;  // rows
    constexpr std::size_t kLineBytes = 64;
    const std::size_t ahead = cursor + kAhead;
    if (ahead >= source.touched.size) return;
    const std::size_t feature = source.touched[ahead];
    if (feature >= end) return;
    const std::size_t r = feature - sources.first_row;
    const char* at = static_cast<const char*>(source.row(r, ahead, columns).numbers);
    for (std::size_t k = 0; k < source.row_bytes(columns); k += kLineBytes) __builtin_prefetch(at + k);
    soon(r);
}

// The same for those rows alone that a source touched, in time that depends on them alone. soon(r) is said some rows
// before, so that they can be fetched from far memory meanwhile.
template <class Soon, class Row>
void each_touched_row(const RowSources& sources, std::size_t columns, const Block& block, const Soon& soon,
                      const Row& row) {
    begin_rows(sources, block);
    const std::size_t end = sources.first_row + block.last_row;
    if (sources.count == 1) {  // of one there is no next row to be searched for: twice as fast
        const RowSource& source = sources.all[0];
        const std::size_t last = lower_bound(source.touched, end);
        for (std::size_t cursor = sources.cursor[0]; cursor < last; ++cursor) {
            fetch_soon(source, cursor, sources, columns, end, soon);
            const std::size_t r = source.touched[cursor] - sources.first_row;
            const Source found = source.row(r, cursor, columns);
            const std::uint8_t joins = 0;
            row(r, Addends{&found, &joins, 1});
        }
        return;
    }
    for (;;) {
        std::size_t next = end;
        for (std::size_t s = 0; s < sources.count; ++s) {
            const Numbers& touched = sources.all[s].touched;
            const std::size_t cursor = sources.cursor[s];
            if (cursor >= touched.size || touched[cursor] >= next) continue;
            next = touched[cursor];
        }
        if (next == end) return;
        for (std::size_t s = 0; s < sources.count; ++s) {
            fetch_soon(sources.all[s], sources.cursor[s], sources, columns, end, soon);
        }
        row(next - sources.first_row, touching_row(sources, columns, next - sources.first_row));
    }
}

}  // namespace
}  // namespace sparsepool
