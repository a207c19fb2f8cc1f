#include "tree.cuh"

// An optimizer's step along with the sum of its gradient: sums, states and the new weights in one pass over memory.
// STEP is a rule of rules.cuh.
using Rule = rules::STEP<float>;

struct Step {
    float scale;  // of the summed gradients
    Rule by;
};

// All of one size. `weights` is the new version, `old` the one before, which may be the same memory.
struct State {
    float* weights;
    const float* old;
    float* states[Rule::kStates];
};

static __device__ __forceinline__ void step_numbers(const Step& step, const State& state, const Floats& sum,
                                                    uint64 place) {
    Floats weight = load_floats(state.old + place);
    Floats states[Rule::kStates];
    UNROLL
    for (int s = 0; s < Rule::kStates; ++s) states[s] = load_floats(state.states[s] + place);
    UNROLL
    for (int i = 0; i < WIDTH; ++i) {
        float own[Rule::kStates];
        UNROLL
        for (int s = 0; s < Rule::kStates; ++s) own[s] = states[s].at[i];
        Rule::apply(step.by, sum.at[i] * step.scale, weight.at[i], own, [](float number) { return sqrtf(number); });
        UNROLL
        for (int s = 0; s < Rule::kWritten; ++s) states[s].at[i] = own[s];
    }
    store_floats(weight, state.weights + place);
    UNROLL
    for (int s = 0; s < Rule::kWritten; ++s) store_floats(states[s], state.states[s] + place);
}

// Items along x: numbers / WIDTH.
KERNEL(128, 8)
step(const Sources sources, const State state, const Step by, uint64 size) {
    const uint64 place = item() * WIDTH;
    if (place >= size) return;
    step_numbers(by, state, sum_dense(sources, place), place);
}

// Of a table (tree.cuh). Blocks: (columns / WIDTH; rows). `touched_only`: rows that no source touched are left alone,
// those of the new version included; else their gradient is 0.
KERNEL(128, 6)
step_rows(const Sources sources, const uint32* __restrict__ found, const State state, const Step by, uint32 rows,
          uint32 columns, uint32 touched_only) {
    const Place here = place();
    if (here.item >= rows || here.column >= columns) return;
    const Node total = sum_row(sources, found, rows, columns, here);
    if (touched_only && !total.there) return;
    step_numbers(by, state, total.sum, static_cast<uint64>(here.item) * columns + here.column);
}
