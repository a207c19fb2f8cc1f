#include "tasks/stockfish/native/layer_stacks.h"

#include <algorithm>
#include <atomic>

#include "arrays/check_lists.h"
#include "arrays/floats.h"
#include "common/check.h"
#include "common/parallel.h"
#include "common/simd.h"
#include "tasks/stockfish/native/kernels.h"

namespace sparsepool::stockfish {
namespace {

constexpr std::size_t kPiece = 1024;        // samples that one partial sum covers; part of the result's bits
constexpr std::size_t kHalf = kHidden / 2;  // of fc_1's inputs, as laid out for the kernels

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

std::size_t rounded_up(std::size_t l1) { return (l1 + 15) / 16 * 16; }

// Where the layers of one bucket lie in a piece of memory; weights and sums have the same places.
struct Places {
    std::size_t padded;
    std::size_t fc_0 = 0;
    std::size_t fc_0_bias = kFirst * padded;
    std::size_t fc_1 = fc_0_bias + kFirst;
    std::size_t fc_1_bias = fc_1 + kSecond * kHidden;
    std::size_t fc_2 = fc_1_bias + kSecond;
    std::size_t fc_2_bias = fc_2 + kSecond;
    std::size_t fc_0_transposed = fc_2_bias + 16;  // of weights only, as the next
    std::size_t fc_1_transposed = fc_0_transposed + kFirst * padded;
    std::size_t size = fc_1_transposed + kSecond * kHidden;
};

// The place of input i of fc_1: each half of 15 has 16 places.
std::size_t hidden_place(std::size_t i) { return i < kPaired ? i : kHalf + i - kPaired; }

// One bucket's weights, as the kernels read them.
class Packed {
  public:
    Packed(const Stacks& stacks, std::size_t bucket)
        : places_{rounded_up(stacks.l1)}, memory_(Floats::zeros(places_.size)) {
        float* to = memory_.data();
        const std::size_t l1 = stacks.l1;
        for (std::size_t o = 0; o < kFirst; ++o) {
            const float* row = stacks.fc_0 + (bucket * kFirst + o) * l1;
            std::copy_n(row, l1, to + places_.fc_0 + o * places_.padded);
            for (std::size_t c = 0; c < l1; ++c) to[places_.fc_0_transposed + c * kFirst + o] = row[c];
        }
        for (std::size_t o = 0; o < kSecond; ++o) {
            const float* row = stacks.fc_1 + (bucket * kSecond + o) * 2 * kPaired;
            for (std::size_t i = 0; i < 2 * kPaired; ++i) {
                to[places_.fc_1 + o * kHidden + hidden_place(i)] = row[i];
                to[places_.fc_1_transposed + hidden_place(i) * kSecond + o] = row[i];
            }
        }
        std::copy_n(stacks.fc_0_bias + bucket * kFirst, kFirst, to + places_.fc_0_bias);
        std::copy_n(stacks.fc_1_bias + bucket * kSecond, kSecond, to + places_.fc_1_bias);
        std::copy_n(stacks.fc_2 + bucket * kSecond, kSecond, to + places_.fc_2);
        to[places_.fc_2_bias] = stacks.fc_2_bias[bucket];
    }

    StackWeights weights() const {
        const float* from = memory_.data();
        return {from + places_.fc_0, from + places_.fc_0_transposed, from + places_.fc_0_bias,
                from + places_.fc_1, from + places_.fc_1_transposed, from + places_.fc_1_bias,
                from + places_.fc_2, from[places_.fc_2_bias]};
    }

  private:
    Places places_;
    Floats memory_;
};

std::vector<Packed> pack(const Stacks& stacks) {
    std::vector<Packed> packed;
    for (std::size_t b = 0; b < stacks.buckets; ++b) packed.emplace_back(stacks, b);
    return packed;
}

std::size_t scratch_size(std::size_t l1) { return 2 * kBlock * (rounded_up(l1) + 16 + kHidden); }

void check(ConstMatrix accumulated, const Stacks& stacks, const std::vector<std::size_t>& borders,
           std::size_t threads) {
    check_threads(threads);
    require(stacks.l1 == accumulated.columns && stacks.l1 % 2 == 0, "fc_0 has ", stacks.l1,
            " inputs, but must have an even number, as many as the ", accumulated.columns, " columns of accumulated");
    require(borders.size() == stacks.buckets + 1, "borders has ", borders.size(), " numbers, must have ",
            stacks.buckets + 1);
    require(borders.front() == 0 && std::is_sorted(borders.begin(), borders.end()) &&
                2 * borders.back() == accumulated.rows,
            "borders must rise from 0 to half of the ", accumulated.rows, " rows of accumulated");
}

// work(piece, scratch) for each piece, by whichever thread is free.
template <class Work>
void for_each_piece(const std::vector<Piece>& pieces, std::size_t l1, std::size_t threads, const Work& work) {
    const std::size_t parts = std::max<std::size_t>(1, std::min(threads, pieces.size()));
    const std::size_t size = scratch_size(l1);
    const Floats scratch(parts * size);
    std::atomic<std::size_t> next{0};
    run_parts(parts, [&](std::size_t part) {
        for (std::size_t i = next.fetch_add(1); i < pieces.size(); i = next.fetch_add(1)) {
            work(i, scratch.data() + part * size);
        }
    });
}

// The block of samples that begins at `first`.
StackBlock block_at(ConstMatrix accumulated, StackMemory<float> memory, std::size_t first, std::size_t last,
                    float* scratch) {
    const std::size_t l1 = accumulated.columns;
    const std::size_t samples = accumulated.rows / 2;
    return {.own = accumulated.data + first * l1,
            .opponent = accumulated.data + (samples + first) * l1,
            .samples = std::min(kBlock, last - first),
            .l1 = l1,
            .padded = rounded_up(l1),
            .stride = rounded_up(l1) + 16,
            .first = memory.first + first * kFirst,
            .second = memory.second + first * kSecond,
            .scratch = scratch};
}

// Adds the sums of one piece to those of its bucket.
void add_piece(const float* from, const Places& places, std::size_t bucket, const StackSums& to) {
    const auto add = [](const float* source, float* out, std::size_t size) {
        for (std::size_t i = 0; i < size; ++i) out[i] += source[i];
    };
    for (std::size_t o = 0; o < kFirst; ++o) {
        add(from + places.fc_0 + o * places.padded, to.fc_0 + (bucket * kFirst + o) * to.l1, to.l1);
    }
    for (std::size_t o = 0; o < kSecond; ++o) {
        const float* row = from + places.fc_1 + o * kHidden;
        float* out = to.fc_1 + (bucket * kSecond + o) * 2 * kPaired;
        add(row, out, kPaired);
        add(row + kHalf, out + kPaired, kPaired);
    }
    add(from + places.fc_0_bias, to.fc_0_bias + bucket * kFirst, kFirst);
    add(from + places.fc_1_bias, to.fc_1_bias + bucket * kSecond, kSecond);
    add(from + places.fc_2, to.fc_2 + bucket * kSecond, kSecond);
    to.fc_2_bias[bucket] += from[places.fc_2_bias];
}

void clear(const StackSums& sums) {
    std::fill_n(sums.fc_0, sums.buckets * kFirst * sums.l1, 0.0F);
    std::fill_n(sums.fc_0_bias, sums.buckets * kFirst, 0.0F);
    std::fill_n(sums.fc_1, sums.buckets * kSecond * 2 * kPaired, 0.0F);
    std::fill_n(sums.fc_1_bias, sums.buckets * kSecond, 0.0F);
    std::fill_n(sums.fc_2, sums.buckets * kSecond, 0.0F);
    std::fill_n(sums.fc_2_bias, sums.buckets, 0.0F);
}

}  // namespace

void stacks_forward(ConstMatrix accumulated, const Stacks& stacks, const std::vector<std::size_t>& borders,
                    StackMemory<float> memory, float* out, std::size_t threads) {
    check(accumulated, stacks, borders, threads);
    const auto& level = simd::kernels<StackKernels>();
    const std::vector<Packed> packed = pack(stacks);
    const std::vector<Piece> pieces = pieces_of(borders);
    for_each_piece(pieces, stacks.l1, threads, [&](std::size_t i, float* scratch) {
        const Piece& piece = pieces[i];
        const StackWeights weights = packed[piece.bucket].weights();
        for (std::size_t first = piece.first; first < piece.last; first += kBlock) {
            level.stack_forward(weights, block_at(accumulated, memory, first, piece.last, scratch), out + first);
        }
    });
}

void stacks_backward(ConstMatrix accumulated, const Stacks& stacks, const std::vector<std::size_t>& borders,
                     StackMemory<const float> memory, const float* grad, const StackSums& sums, Matrix grad_accumulated,
                     std::size_t threads) {
    check(accumulated, stacks, borders, threads);
    const auto& level = simd::kernels<StackKernels>();
    const std::vector<Packed> packed = pack(stacks);
    const std::vector<Piece> pieces = pieces_of(borders);
    const Places places{rounded_up(stacks.l1)};
    const Floats partial = Floats::zeros(pieces.size() * places.fc_0_transposed);
    const std::size_t l1 = stacks.l1;
    float* grad_opponent = grad_accumulated.data + grad_accumulated.rows / 2 * l1;
    const bool stream = l1 % 32 == 0 && worth_streaming(grad_accumulated.data, grad_accumulated.rows, l1);
    // the kernel only reads them
    const StackMemory<float> kept{const_cast<float*>(memory.first), const_cast<float*>(memory.second)};
    for_each_piece(pieces, l1, threads, [&](std::size_t i, float* scratch) {
        const Piece& piece = pieces[i];
        const StackWeights weights = packed[piece.bucket].weights();
        float* to = partial.data() + i * places.fc_0_transposed;
        const StackGradients piece_sums{to + places.fc_0,      to + places.fc_0_bias, to + places.fc_1,
                                        to + places.fc_1_bias, to + places.fc_2,      to + places.fc_2_bias};
        for (std::size_t first = piece.first; first < piece.last; first += kBlock) {
            level.stack_backward(weights, block_at(accumulated, kept, first, piece.last, scratch), grad + first,
                                 piece_sums, grad_accumulated.data + first * l1, grad_opponent + first * l1, stream);
        }
    });
    clear(sums);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        add_piece(partial.data() + i * places.fc_0_transposed, places, pieces[i].bucket, sums);
    }
}

}  // namespace sparsepool::stockfish
