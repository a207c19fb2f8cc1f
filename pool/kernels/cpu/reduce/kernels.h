#pragma once

#include "base/numbers.h"

// The kernels that reduce gradients, and the plain structs that they work on. Nothing here checks bounds.
namespace sparsepool {

// The type of the numbers of all sources. Sums are float32.
enum class SourceType : std::uint8_t { kFloat32, kBFloat16, kMixed };

// A gradient, or a sum of several, that is added.
struct Source {
    const void* numbers;
    bool bfloat16 = false;  // else float32
};

// Sources to be added up along the tree: see find_joins in tree.h.
struct TreeSources {
    const Source* sources;
    const std::uint8_t* joins;
    std::size_t count;
};

// The gradient of a table: it defines only the rows whose features are in `touched`. A compact source has just those
// rows, one after another, beginning with touched[first].
struct RowSource {
    Source rows;
    Numbers touched;     // strictly ascending
    std::uint32_t leaf;  // of the tree; ascending from source to source
    bool compact = false;
    std::size_t first = 0;

    [[gnu::always_inline]] std::size_t row_bytes(std::size_t columns) const {
        return columns * (rows.bfloat16 ? sizeof(BFloat16) : sizeof(float));
    }

    // Row r of the table, whose feature is touched[index].
    [[gnu::always_inline]] Source row(std::size_t r, std::size_t index, std::size_t columns) const {
        const std::size_t begin = (compact ? index - first : r) * row_bytes(columns);  // in bytes
        return {static_cast<const char*>(rows.numbers) + begin, rows.bfloat16};
    }
};

struct RowSources {
    const RowSource* all;
    std::size_t count;
    std::size_t first_row;  // the feature of row 0
    SourceType type;
    // Scratch memory, `count` entries each: an index into each source's touched rows, and a row's sources.
    std::size_t* cursors;
    Source* row_sources;
    std::uint32_t* leaves;
    std::uint8_t* joins;
};

// How a sum is written.
struct Reduction {
    float* out;
    float scale;
    bool touched_only;  // of rows: those that no source touched are not written
    bool stream;        // stores bypass the caches
};

struct ReduceKernels {
    // out[first .. last - 1] = (sum of the sources) * scale.
    void (*reduce)(const Reduction& reduction, const TreeSources& from, SourceType type, std::size_t first,
                   std::size_t last);

    // The same for rows [block.first_row, block.last_row) of `columns` floats; 0 is added to each sum.
    void (*reduce_rows)(const Reduction& reduction, const RowSources& sources, std::size_t columns, const Block& block);

    // Copies `size` numbers. Returns whether all are finite.
    bool (*copy_checked)(const float* from, float* to, std::size_t size);

    // For chunks first .. last - 1: sums[c] = the sum of the squares of numbers c * rules::kNormChunk and following.
    void (*square_chunks)(const float* from, std::size_t size, double* sums, std::size_t first, std::size_t last);

    static const ReduceKernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool
