#include "tasks/chess/native/layer_stacks.h"

#include <algorithm>
#include <atomic>

#include "arrays/check_lists.h"
#include "common/check.h"
#include "common/parallel.h"
#include "common/simd.h"
#include "tasks/chess/native/layout.h"

namespace sparsepool::chess {
namespace {

constexpr std::size_t kPiece = 1024;  // samples that one partial sum covers; part of the result's bits

struct Piece {
    std::size_t bucket, first, last;
};

std::vector<Piece> pieces_of(const std::vector<std::size_t>& borders) {
    std::vector<Piece> pieces;
    for (std::size_t b = 0; b + 1 < borders.size(); ++b) {
        for (std::size_t first = borders[b]; first < borders[b + 1]; first += kPiece) {
            pieces.push_back({b, first, std::min(borders[b + 1], first + kPiece)});
        }
    }
    return pieces;
}

// Of the buckets that have samples; the others' are empty.
std::vector<Floats> pack(const Stacks& stacks, const StackLayout& layout, const std::vector<std::size_t>& borders) {
    std::vector<Floats> all;
    for (std::size_t b = 0; b < stacks.buckets; ++b) {
        all.push_back(borders[b] < borders[b + 1] ? packed(stacks, layout, b) : Floats(0));
    }
    return all;
}

void check(ConstMatrix accumulated, const Stacks& stacks, const std::vector<std::size_t>& borders, ConstMatrix memory,
           std::size_t threads) {
    check_threads(threads);
    require(stacks.form.first != FirstActivation::kPairwise || accumulated.columns % 2 == 0, "accumulated has ",
            accumulated.columns, " columns, but products of pairs need an even number");
    require(borders.front() == 0 && std::is_sorted(borders.begin(), borders.end()) &&
                2 * borders.back() == accumulated.rows,
            "borders must rise from 0 to half of the ", accumulated.rows, " rows of accumulated");
    require(memory.rows == borders.back() && memory.columns == memory_width(stacks.form), "memory is [", memory.rows,
            ", ", memory.columns, "], must be [", borders.back(), ", ", memory_width(stacks.form), "]");
}

// work(piece, scratch) for each piece, by whichever thread is free.
template <class Work>
void for_each_piece(const std::vector<Piece>& pieces, const StackLayout& layout, std::size_t threads,
                    const Work& work) {
    const std::size_t parts = std::max<std::size_t>(1, std::min(threads, pieces.size()));
    const std::size_t size = layout.scratch();
    const Floats scratch(parts * size);
    std::atomic<std::size_t> next{0};
    run_parts(parts, [&](std::size_t part) {
        for (std::size_t i = next.fetch_add(1); i < pieces.size(); i = next.fetch_add(1)) {
            work(i, scratch.data() + part * size);
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

}  // namespace

std::size_t memory_width(const StackForm& form) { return layout_of(form, 0).outputs; }

void stacks_forward(ConstMatrix accumulated, const Stacks& stacks, const std::vector<std::size_t>& borders,
                    Matrix memory, float* out, std::size_t threads) {
    check(accumulated, stacks, borders, {memory.data, memory.rows, memory.columns}, threads);
    const auto& level = simd::kernels<StackKernels>();
    const StackLayout layout = layout_of(stacks.form, stacks.l1);
    const std::vector<Floats> parameters = pack(stacks, layout, borders);
    const std::vector<Piece> pieces = pieces_of(borders);
    for_each_piece(pieces, layout, threads, [&](std::size_t i, float* scratch) {
        const Piece& piece = pieces[i];
        for (std::size_t first = piece.first; first < piece.last; first += layout.block) {
            level.stack_forward(layout, parameters[piece.bucket].data(),
                                block_at(accumulated, layout, memory.data, first, piece.last, scratch), out + first);
        }
    });
}

void stacks_backward(ConstMatrix accumulated, const Stacks& stacks, const std::vector<std::size_t>& borders,
                     ConstMatrix memory, const float* grad, const StackSums& sums, Matrix grad_accumulated,
                     std::size_t threads) {
    check(accumulated, stacks, borders, memory, threads);
    const auto& level = simd::kernels<StackKernels>();
    const StackLayout layout = layout_of(stacks.form, stacks.l1);
    const std::vector<Floats> parameters = pack(stacks, layout, borders);
    const std::vector<Piece> pieces = pieces_of(borders);
    const Floats partial = Floats::zeros(pieces.size() * layout.gradients);
    const std::size_t l1 = layout.l1;
    float* grad_opponent = grad_accumulated.data + grad_accumulated.rows / 2 * l1;
    const std::size_t aligned = layout.first == FirstActivation::kPairwise ? 2 * kLanes : kLanes;
    const bool stream = l1 % aligned == 0 && worth_streaming(grad_accumulated.data, grad_accumulated.rows, l1);
    float* kept = const_cast<float*>(memory.data);  // the kernel only reads them
    for_each_piece(pieces, layout, threads, [&](std::size_t i, float* scratch) {
        const Piece& piece = pieces[i];
        for (std::size_t first = piece.first; first < piece.last; first += layout.block) {
            level.stack_backward(layout, parameters[piece.bucket].data(),
                                 block_at(accumulated, layout, kept, first, piece.last, scratch), grad + first,
                                 partial.data() + i * layout.gradients, grad_accumulated.data + first * l1,
                                 grad_opponent + first * l1, stream);
        }
    });
    clear(sums);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        add_sums(partial.data() + i * layout.gradients, layout, pieces[i].bucket, sums);
    }
}

}  // namespace sparsepool::chess
