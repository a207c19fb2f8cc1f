#include "tasks/chess/cpu/first_layers.h"

#include <algorithm>

#include "base/lists.h"
#include "common/check.h"
#include "common/crash_point.h"
#include "common/parallel.h"
#include "common/simd.h"
#include "tasks/chess/cpu/form.h"
#include "tasks/chess/cpu/layout.h"

namespace sparsepool::chess {
namespace {

// Cuts each chunk of the plan in runs of bags of one bucket and side.
struct Runs {
    std::vector<PlanRun> runs;
    std::vector<std::uint32_t> first;  // the first run of each chunk; the number of all runs last

    Runs(const PlanView& plan, const std::vector<std::size_t>& borders) {
        const std::size_t samples = borders.back();
        for (std::size_t c = 0; c < plan.num_chunks; ++c) {
            const PlanChunk& chunk = plan.chunks[c];
            first.push_back(static_cast<std::uint32_t>(runs.size()));
            std::size_t end_bag = 0;  // the first bag after the current run's bucket and side
            for (std::uint32_t i = chunk.first_bag; i < chunk.last_bag; ++i) {
                const std::uint32_t bag = plan.bags[i];
                const bool begins_run = i == chunk.first_bag || bag >= end_bag;
                if (begins_run) {
                    const bool is_opponent = bag >= samples;
                    const std::size_t sample = is_opponent ? bag - samples : bag;
                    const auto border = std::upper_bound(borders.begin(), borders.end(), sample);
                    end_bag = *border + (is_opponent ? samples : 0);
                    const auto bucket = static_cast<std::uint32_t>(border - borders.begin() - 1);
                    runs.push_back({i - chunk.first_bag, 0, bucket, is_opponent});
                }
                runs.back().last = i - chunk.first_bag + 1;
            }
        }
        first.push_back(static_cast<std::uint32_t>(runs.size()));
    }
};

void check(const SparsePlan& plan, const Stacks& stacks, const std::vector<std::size_t>& borders, ConstMatrix table,
           ConstMatrix activations, std::size_t threads) {
    check_threads(threads);
    require(plan.is_worthwhile(), "this plan is not worth its use, and empty");
    require(serves_first_layers(stacks.form, stacks.l1),
            "the first layers of this form and width can't be computed along a plan");
    require(table.rows == plan.num_features(), "the table has ", table.rows, " rows, but the plan was made for ",
            plan.num_features());
    require(
        borders.front() == 0 && std::is_sorted(borders.begin(), borders.end()) && 2 * borders.back() == plan.num_bags(),
        "borders must rise from 0 to half of the ", plan.num_bags(), " bags of the plan");
    require(activations.rows == plan.num_bags() && activations.columns == stacks.l1, "activations is [",
            activations.rows, ", ", activations.columns, "], must be [", plan.num_bags(), ", ", stacks.l1, "]");
}

// Calls run(first slab, last slab, scratch memory) for each thread's share of the slabs.
template <class Run>
void run_by_slabs(const FirstLayers& layers, std::size_t threads, std::size_t scratch_size, const Run& run) {
    const std::size_t slabs = layers.slabs();
    const std::size_t parts = std::min(threads, slabs);
    const Floats scratch(parts * scratch_size);
    run_parts(parts, [&](std::size_t part) {
        run(border(slabs, 1, part, parts), border(slabs, 1, part + 1, parts), scratch.data() + part * scratch_size);
    });
}

// Writes the dense layer's outputs to `memory`: the bias plus what each slab adds.
void add_slabs(const FirstLayers& layers, const Stacks& stacks, const std::vector<std::size_t>& borders,
               Matrix memory) {
    const std::size_t dense = layers.dense();
    const std::size_t slabs = layers.slabs();
    for (std::size_t b = 0; b < stacks.buckets; ++b) {
        for (std::size_t i = borders[b]; i < borders[b + 1]; ++i) {
            float* to = memory.data + i * memory.columns;
            std::copy_n(stacks.layers[0].bias + b * dense, dense, to);
            for (std::size_t s = 0; s < slabs; ++s) {
                const float* from = layers.partial + (s * layers.samples + i) * dense;
                for (std::size_t c = 0; c < dense; ++c) to[c] += from[c];
            }
        }
    }
}

}  // namespace

bool serves_first_layers(const StackForm& form, std::size_t l1) {
    return !form.hidden.empty() && form.hidden[0].outputs % kLanes == 0 && l1 > 0 && l1 % FirstLayers::kBlock == 0;
}

void first_layers_forward(const SparsePlan& plan, ConstMatrix table, const float* bias, const Stacks& stacks,
                          const std::vector<std::size_t>& borders, Matrix activations, Matrix memory, float* out,
                          std::size_t threads) {
    check(plan, stacks, borders, table, {activations.data, activations.rows, activations.columns}, threads);
    require(memory.rows == borders.back() && memory.columns == memory_width(stacks.form), "memory is [", memory.rows,
            ", ", memory.columns, "], must be [", borders.back(), ", ", memory_width(stacks.form), "]");
    const StackLayout layout = layout_of(stacks.form, stacks.l1);
    const PlanView view = plan.view();
    const Runs runs(view, borders);
    std::vector<Floats> buckets;
    std::vector<const float*> parameters;
    for (std::size_t b = 0; b < stacks.buckets; ++b) {
        buckets.push_back(pack_bucket(stacks, layout, b));
        parameters.push_back(buckets.back().data());
    }
    FirstLayers layers{};
    layers.layout = &layout;
    layers.plan = &view;
    layers.runs = runs.runs.data();
    layers.first_run = runs.first.data();
    layers.samples = borders.back();
    layers.buckets = stacks.buckets;
    layers.parameters = parameters.data();
    layers.activations = activations.data;
    layers.stream = should_stream(activations.data, activations.rows, activations.columns);
    layers.table = table.data;
    layers.bias = bias;
    const Floats partial(layers.slabs() * layers.samples * layers.dense());
    layers.partial = partial.data();
    const auto& kernels = simd::kernels<StackKernels>();
    const std::size_t scratch =
        PlanView::kChunk * (PlanView::kSlab + kLanes + layers.dense()) + plan.max_slab_rows() * PlanView::kSlab;
    run_by_slabs(layers, threads, scratch, [&](std::size_t first, std::size_t last, float* part_scratch) {
        kernels.first_forward(layers, first, last, part_scratch);
    });
    add_slabs(layers, stacks, borders, memory);
    tails_forward(stacks, borders, memory, out, threads);
}

void first_layers_backward(const SparsePlan& plan, const Stacks& stacks, const std::vector<std::size_t>& borders,
                           ConstMatrix activations, ConstMatrix grad_outputs, Matrix grad_table, float* column_sums,
                           float* grad_weight, std::size_t first_tile, std::size_t last_tile, std::size_t threads) {
    check(plan, stacks, borders, {grad_table.data, grad_table.rows, grad_table.columns}, activations, threads);
    require(grad_table.columns == stacks.l1, "grad_table has ", grad_table.columns, " columns, must have ", stacks.l1);
    require(first_tile <= last_tile && last_tile <= plan.num_tiles(), "tiles ", first_tile, " to ", last_tile, " of ",
            plan.num_tiles());
    const StackLayout layout = layout_of(stacks.form, stacks.l1);
    const PlanView view = plan.view();
    const Runs runs(view, borders);
    // Weights and sums of the model have the layout of the kernels: no width is padded, and they are a bucket's first
    // ones.
    const std::size_t size = layout.hidden[0].outputs * layout.hidden[0].depth;
    std::vector<const float*> parameters;
    std::vector<float*> sums;
    for (std::size_t b = 0; b < stacks.buckets; ++b) {
        parameters.push_back(stacks.layers[0].weight + b * size);
        sums.push_back(grad_weight + b * size);
    }
    FirstLayers layers{};
    layers.layout = &layout;
    layers.plan = &view;
    layers.runs = runs.runs.data();
    layers.first_run = runs.first.data();
    layers.samples = borders.back();
    layers.buckets = stacks.buckets;
    layers.parameters = parameters.data();
    layers.activations = const_cast<float*>(activations.data);  // the kernel only reads them
    layers.stream = should_stream(grad_table.data, plan.num_rows(), grad_table.columns);
    layers.grad_outputs = grad_outputs.data;
    layers.grad_table = grad_table.data;
    layers.column_sums = column_sums;
    layers.sums = sums.data();
    if (first_tile == 0) std::fill_n(column_sums, stacks.l1, 0.0F);
    const auto& kernels = simd::kernels<StackKernels>();
    const std::size_t block = FirstLayers::kBlock;
    const std::size_t parts = 2 * 2 * stacks.buckets * layers.dense() * PlanView::kSlab;  // of weights and sums
    const std::size_t scratch = PlanView::kChunk * (layers.dense() + 2 * block) + (1 + PlanView::kChunk) * block +
                                parts + plan.max_slab_rows() * PlanView::kSlab;
    run_by_slabs(layers, threads, scratch, [&](std::size_t first, std::size_t last, float* part_scratch) {
        kernels.first_backward(layers, first_tile, last_tile, first, last, part_scratch);
    });
    crash_point("worker.table_written");
}

}  // namespace sparsepool::chess
