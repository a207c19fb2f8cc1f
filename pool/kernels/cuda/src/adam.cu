#include "tree.cuh"

// Adam along with the fold of its gradient: sums, moments and the new weights in one pass over memory.

struct Step {
    float scale;  // of the summed gradients
    rules::AdamNumbers<float> adam;
};

// All of one size. `weights` is the new version, `old` the one before, which may be the same memory.
struct State {
    float* weights;
    const float* old;
    float* mean;
    float* square;
};

static __device__ __forceinline__ void step_numbers(const Step& step, const State& state, const Floats& sum,
                                                    uint64 place) {
    Floats weight = load_floats(state.old + place);
    Floats mean = load_floats(state.mean + place);
    Floats square = load_floats(state.square + place);
    UNROLL
    for (int i = 0; i < WIDTH; ++i) {
        rules::adam(step.adam, sum.at[i] * step.scale, weight.at[i], mean.at[i], square.at[i],
                    [](float number) { return sqrtf(number); });
    }
    store_floats(weight, state.weights + place);
    store_floats(mean, state.mean + place);
    store_floats(square, state.square + place);
}

// Items along x: numbers / WIDTH.
KERNEL(128, 8)
adam(const Sources sources, const State state, const Step step, uint64 size) {
    const uint64 place = item() * WIDTH;
    if (place >= size) return;
    step_numbers(step, state, sum_dense(sources, place), place);
}

// Of a table (tree.cuh). Blocks: (columns / WIDTH; rows). `touched_only`: rows that no source touched are left alone,
// those of the new version included; else their gradient is 0.
KERNEL(128, 6)
adam_rows(const Sources sources, const uint32* __restrict__ found, const State state, const Step step, uint32 rows,
          uint32 columns, uint32 touched_only) {
    const Place here = place();
    if (here.item >= rows || here.column >= columns) return;
    const Node total = sum_row(sources, found, rows, columns, here);
    if (touched_only && !total.there) return;
    step_numbers(step, state, total.sum, static_cast<uint64>(here.item) * columns + here.column);
}
