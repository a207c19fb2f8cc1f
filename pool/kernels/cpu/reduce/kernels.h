#pragma once

#include "base/numbers.h"

// The hot code that adds gradients up, and the plain structs that it works on. Nothing here checks
// bounds.
namespace sparsepool {

// What the sources of a sum hold; sums are float32.
enum class Held : std::uint8_t { kFloat32, kBFloat16, kBoth };

// The numbers of one source.
struct Source {
    const void* numbers;
    bool bfloat16 = false;  // else float32
};

// What is added up along the tree of tree.h: after source s, the newest joins[s] + 1 sums become one.
struct Addends {
    const Source* sources;
    const std::uint8_t* joins;
    std::size_t count;
};

// One source of a sum over rows: row r - first_row is defined only for r in `touched`. A compact one has those alone,
// one after the other from touched[first] on.
struct RowSource {
    Source rows;
    Numbers touched;     // strictly ascending
    std::uint32_t leaf;  // of the tree; ascending from source to source
    bool compact = false;
    std::size_t first = 0;

    [[gnu::always_inline]] std::size_t row_bytes(std::size_t columns) const {
        return columns * (rows.bfloat16 ? sizeof(BFloat16) : sizeof(float));
    }

    // Row r, which is touched[index].
    [[gnu::always_inline]] Source row(std::size_t r, std::size_t index, std::size_t columns) const {
        const std::size_t begin = (compact ? index - first : r) * row_bytes(columns);
        return {static_cast<const char*>(rows.numbers) + begin, rows.bfloat16};
    }
};

struct RowSources {
    const RowSource* all;
    std::size_t count;
    std::size_t first_row;  // the feature of row 0
    Held held;
    std::size_t* cursor;  // scratch of `count` entries, as the rest
    Source* found;
    std::uint32_t* leaves;
    std::uint8_t* joins;
};

struct Reduction {
    float* out;
    float scale;
    bool touched_only;  // of rows: those that no source touched are left alone
    bool stream;        // stores leave the caches alone
};

struct ReduceKernels {
    // out[first .. last] = (sum of the sources) * scale.
    void (*reduce)(const Reduction& reduction, const Addends& from, Held held, std::size_t first, std::size_t last);

    // The same for rows [block.first_row, block.last_row) of `columns` floats; 0 is added to each sum.
    void (*reduce_rows)(const Reduction& reduction, const RowSources& sources, std::size_t columns, const Block& block);

    // Copies `size` numbers; whether all are finite.
    bool (*copy_checked)(const float* from, float* to, std::size_t size);

    // sums[c] = the squares of numbers c * rules::kNormChunk and on, added up, for chunks first .. last.
    void (*square_chunks)(const float* from, std::size_t size, double* sums, std::size_t first, std::size_t last);

    static const ReduceKernels baseline, avx2, avx512;  // common/simd.h
};

}  // namespace sparsepool
