#include "tasks/chess/cpu/layer_stacks.h"

#include <algorithm>
#include <atomic>

#include "base/lists.h"
#include "common/check.h"
#include "common/parallel.h"
#include "common/simd.h"
#include "tasks/chess/cpu/form.h"
#include "tasks/chess/cpu/layout.h"

namespace sparsepool::chess {
namespace {

constexpr std::size_t kPieceSamples = 1024;  // samples that one partial sum covers; part of the result's bits

struct Piece {
    std::size_t bucket, first, last;
};

std::vector<Piece> cut_pieces(const std::vector<std::size_t>& borders) {
    std::vector<Piece> pieces;
    for (std::size_t b = 0; b + 1 < borders.size(); ++b) {
        for (std::size_t first = borders[b]; first < borders[b + 1]; first += kPieceSamples) {
            pieces.push_back({b, first, std::min(borders[b + 1], first + kPieceSamples)});
        }
    }
    return pieces;
}

// The packed parameters of all buckets; empty for buckets without samples.
std::vector<Floats> pack_buckets(const Stacks& stacks, const StackLayout& layout,
                                 const std::vector<std::size_t>& borders) {
    std::vector<Floats> all;
    for (std::size_t b = 0; b < stacks.buckets; ++b) {
        all.push_back(borders[b] < borders[b + 1] ? pack_bucket(stacks, layout, b) : Floats(0));
    }
    return all;
}

ConstMatrix read_only(Matrix matrix) { return {matrix.data, matrix.rows, matrix.columns}; }

void check(const Stacks& stacks, const std::vector<std::size_t>& borders, ConstMatrix memory, std::size_t threads) {
    check_threads(threads);
    require(borders.front() == 0 && std::is_sorted(borders.begin(), borders.end()) && memory.rows == borders.back(),
            "borders must rise from 0 to the ", memory.rows, " samples");
    require(memory.columns == memory_width(stacks.form), "memory has ", memory.columns, " columns, must have ",
            memory_width(stacks.form));
}

void check_rows(ConstMatrix accumulated, const Stacks& stacks, ConstMatrix memory) {
    require(!makes_pairs(stacks.form.first) || accumulated.columns % 2 == 0, "accumulated has ", accumulated.columns,
            " columns, but products of pairs need an even number");
    require(accumulated.rows == 2 * memory.rows, "accumulated has ", accumulated.rows, " rows, must have 2 of each of ",
            memory.rows, " samples");
}

// Calls work(piece index, scratch memory) for each piece, on the next free thread.
template <class Work>
void run_pieces(const std::vector<Piece>& pieces, const StackLayout& layout, std::size_t threads, const Work& work) {
    const std::size_t parts = std::max<std::size_t>(1, std::min(threads, pieces.size()));
    const std::size_t size = layout.scratch();
    const Floats scratch(parts * size);
    std::atomic<std::size_t> next{0};
    run_parts(parts, [&](std::size_t part) {
        std::size_t i = next.fetch_add(1);
        while (i < pieces.size()) {
            work(i, scratch.data() + part * size);
            i = next.fetch_add(1);
        }
    });
}

// The block of samples that begins at `first`.
StackBlock block_at(ConstMatrix accumulated, const StackLayout& layout, float* memory, std::size_t first,
                    std::size_t last, float* scratch) {
    const std::size_t samples = accumulated.rows / 2;
    return {.own = accumulated.data + first * layout.l1,
            .opponent = accumulated.data + (samples + first) * layout.l1,
            .samples = std::min(layout.block, last - first),
            .outputs = memory + first * layout.outputs,
            .scratch = scratch};
}

// The same without the outputs of the first layer.
StackBlock tail_at(const StackLayout& layout, float* memory, std::size_t first, std::size_t last, float* scratch) {
    return {.own = nullptr,
            .opponent = nullptr,
            .samples = std::min(layout.block, last - first),
            .outputs = memory + first * layout.outputs,
            .scratch = scratch};
}

void add_pieces(const Floats& partial, const std::vector<Piece>& pieces, const StackLayout& layout,
                const StackSums& sums) {
    clear(sums);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        add_sums(partial.data() + i * layout.gradients, layout, pieces[i].bucket, sums);
    }
}

}  // namespace

std::size_t memory_width(const StackForm& form) { return layout_of(form, 0).outputs; }

// Runs the pieces of all buckets block by block.
void stacks_forward(ConstMatrix accumulated, const Stacks& stacks, const std::vector<std::size_t>& borders,
                    Matrix memory, float* out, std::size_t threads) {
    check(stacks, borders, read_only(memory), threads);
    check_rows(accumulated, stacks, read_only(memory));
    const auto& kernels = simd::kernels<StackKernels>();
    const StackLayout layout = layout_of(stacks.form, stacks.l1);
    const std::vector<Floats> parameters = pack_buckets(stacks, layout, borders);
    const std::vector<Piece> pieces = cut_pieces(borders);
    run_pieces(pieces, layout, threads, [&](std::size_t i, float* scratch) {
        const Piece& piece = pieces[i];
        for (std::size_t first = piece.first; first < piece.last; first += layout.block) {
            kernels.stack_forward(layout, parameters[piece.bucket].data(),
                                  block_at(accumulated, layout, memory.data, first, piece.last, scratch), out + first);
        }
    });
}

// Each piece sums its own gradients of the parameters; then these are added in the order of the pieces.
void stacks_backward(ConstMatrix accumulated, const Stacks& stacks, const std::vector<std::size_t>& borders,
                     ConstMatrix memory, const float* grad, const StackSums& sums, Matrix grad_accumulated,
                     std::size_t threads) {
    check(stacks, borders, memory, threads);
    check_rows(accumulated, stacks, memory);
    const auto& kernels = simd::kernels<StackKernels>();
    const StackLayout layout = layout_of(stacks.form, stacks.l1);
    const std::vector<Floats> parameters = pack_buckets(stacks, layout, borders);
    const std::vector<Piece> pieces = cut_pieces(borders);
    const Floats partial = Floats::zeros(pieces.size() * layout.gradients);
    const std::size_t l1 = layout.l1;
    float* grad_opponent = grad_accumulated.data + grad_accumulated.rows / 2 * l1;
    const std::size_t alignment = makes_pairs(layout.first) ? 2 * kLanes : kLanes;
    const bool stream = l1 % alignment == 0 && should_stream(grad_accumulated.data, grad_accumulated.rows, l1);
    float* outputs = const_cast<float*>(memory.data);  // the kernel only reads them
    run_pieces(pieces, layout, threads, [&](std::size_t i, float* scratch) {
        const Piece& piece = pieces[i];
        for (std::size_t first = piece.first; first < piece.last; first += layout.block) {
            kernels.stack_backward(layout, parameters[piece.bucket].data(),
                                   block_at(accumulated, layout, outputs, first, piece.last, scratch), grad + first,
                                   partial.data() + i * layout.gradients, grad_accumulated.data + first * l1,
                                   grad_opponent + first * l1, stream);
        }
    });
    add_pieces(partial, pieces, layout, sums);
}

void tails_forward(const Stacks& stacks, const std::vector<std::size_t>& borders, Matrix memory, float* out,
                   std::size_t threads) {
    check(stacks, borders, read_only(memory), threads);
    const auto& kernels = simd::kernels<StackKernels>();
    const StackLayout layout = layout_of(stacks.form, stacks.l1);
    const std::vector<Floats> parameters = pack_buckets(stacks, layout, borders);
    const std::vector<Piece> pieces = cut_pieces(borders);
    run_pieces(pieces, layout, threads, [&](std::size_t i, float* scratch) {
        const Piece& piece = pieces[i];
        for (std::size_t first = piece.first; first < piece.last; first += layout.block) {
            kernels.tail_forward(layout, parameters[piece.bucket].data(),
                                 tail_at(layout, memory.data, first, piece.last, scratch), out + first);
        }
    });
}

void tails_backward(const Stacks& stacks, const std::vector<std::size_t>& borders, ConstMatrix memory,
                    const float* grad, const StackSums& sums, Matrix grad_outputs, std::size_t threads) {
    check(stacks, borders, memory, threads);
    const auto& kernels = simd::kernels<StackKernels>();
    const StackLayout layout = layout_of(stacks.form, stacks.l1);
    require(layout.layers > 0 && grad_outputs.columns == layout.hidden[0].outputs, "grad_outputs has ",
            grad_outputs.columns, " columns, must have a multiple of ", kLanes, ", as the first hidden layer");
    const std::vector<Floats> parameters = pack_buckets(stacks, layout, borders);
    const std::vector<Piece> pieces = cut_pieces(borders);
    const Floats partial = Floats::zeros(pieces.size() * layout.gradients);
    float* outputs = const_cast<float*>(memory.data);  // the kernel only reads them
    run_pieces(pieces, layout, threads, [&](std::size_t i, float* scratch) {
        const Piece& piece = pieces[i];
        for (std::size_t first = piece.first; first < piece.last; first += layout.block) {
            kernels.tail_backward(
                layout, parameters[piece.bucket].data(), tail_at(layout, outputs, first, piece.last, scratch),
                grad + first, partial.data() + i * layout.gradients, grad_outputs.data + first * grad_outputs.columns);
        }
    });
    add_pieces(partial, pieces, layout, sums);
}

}  // namespace sparsepool::chess
