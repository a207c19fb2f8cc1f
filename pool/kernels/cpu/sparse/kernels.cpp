#include "sparse/kernels.h"

#include "base/vec.h"
#include "common/isa.h"
#include "sparse/list_sums_kernel.h"
#include "sparse/plan_kernel.h"

// Sums of columns.
namespace sparsepool {
namespace {

constexpr std::size_t kColumnChunk = 256;   // rows that one partial column sum covers; part of the result's bits
constexpr std::size_t kColumnBlock = 1024;  // columns whose partial sums stay in the first cache

// partial += kRows rows of `width` floats, each after the other.
template <std::size_t kRows>
void add_rows(float* partial, const float* row, std::size_t columns, std::size_t width) {
    std::size_t c = 0;
    for (; c + Vec::kWidth <= width; c += Vec::kWidth) {
        Vec total = Vec::load(partial + c);
        for (std::size_t r = 0; r < kRows; ++r) total = total + Vec::load(row + r * columns + c);
        total.store(partial + c);
    }
    if (c < width) {
        Vec total = Vec::load_part(partial + c, width - c);
        for (std::size_t r = 0; r < kRows; ++r) total = total + Vec::load_part(row + r * columns + c, width - c);
        total.store_part(partial + c, width - c);
    }
}

// Sums kColumnChunk rows to `partial`, block by block of columns, and adds the partial sums in order.
void column_sums(const float* matrix, float* out, std::size_t columns, const Block& block) {
    constexpr std::size_t kRows = 8;
    alignas(64) float partial[kColumnBlock];
    for (std::size_t first = block.first_column; first < block.last_column; first += kColumnBlock) {
        const std::size_t remaining_columns = block.last_column - first;
        const std::size_t width = remaining_columns < kColumnBlock ? remaining_columns : kColumnBlock;
        for (std::size_t start = block.first_row; start < block.last_row; start += kColumnChunk) {
            const std::size_t remaining_rows = block.last_row - start;
            const std::size_t end = start + (remaining_rows < kColumnChunk ? remaining_rows : kColumnChunk);
            for (std::size_t c = 0; c < width; ++c) partial[c] = 0.0F;
            std::size_t row = start;
            for (; row + kRows <= end; row += kRows) {
                add_rows<kRows>(partial, matrix + row * columns + first, columns, width);
            }
            for (; row < end; ++row) add_rows<1>(partial, matrix + row * columns + first, columns, width);
            for (std::size_t c = 0; c < width; ++c) {
                out[first + c] = start == block.first_row ? partial[c] : out[first + c] + partial[c];
            }
        }
    }
}

}  // namespace
}  // namespace sparsepool

// Every output is summed in the order of its list by exactly one thread, and a vector's lanes never meet, so the bits
// do not depend on level, register block, slab or thread.

const sparsepool::SparseKernels sparsepool::SparseKernels::SPARSEPOOL_ISA{
    sparsepool::row_sums, sparsepool::plan_forward, sparsepool::plan_backward, sparsepool::column_sums};
