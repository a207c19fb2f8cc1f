#include "tree.cuh"

// Reduces gradients and steps an optimizer in one pass over memory. STEP is a rule of rules.cuh.
using Rule = rules::STEP<float>;

struct Step {
    float scale;  // factor of the summed gradients
    Rule rule;
};

// Tensors of one size. `weights` is the new version, `old_weights` the version before, which may be the same memory.
struct State {
    float* weights;
    const float* old_weights;
    float* states[Rule::kStates];
};

static __device__ __forceinline__ void step_numbers(const Step& step, const State& state, const Floats& sum,
                                                    uint64 first) {
    Floats weight = load_floats(state.old_weights + first);
    Floats states[Rule::kStates];
    UNROLL
    for (int s = 0; s < Rule::kStates; ++s) states[s] = load_floats(state.states[s] + first);
    UNROLL
    for (int i = 0; i < WIDTH; ++i) {
        float number_states[Rule::kStates];
        UNROLL
        for (int s = 0; s < Rule::kStates; ++s) number_states[s] = states[s].at[i];
        Rule::apply(step.rule, sum.at[i] * step.scale, weight.at[i], number_states,
                    [](float number) { return sqrtf(number); });
        UNROLL
        for (int s = 0; s < Rule::kWritten; ++s) states[s].at[i] = number_states[s];
    }
    store_floats(weight, state.weights + first);
    UNROLL
    for (int s = 0; s < Rule::kWritten; ++s) store_floats(states[s], state.states[s] + first);
}

// Steps tensors with dense gradients. Items along x: numbers / WIDTH.
KERNEL(128, 8)
step(const Sources sources, const State state, const Step parameters, uint64 size) {
    const uint64 first = item() * WIDTH;
    if (first >= size) return;
    step_numbers(parameters, state, sum_dense(sources, first), first);
}

// Steps a table (tree.cuh). Blocks: (columns / WIDTH; rows). With `touched_only` rows that no source touched are
// neither read nor written; else their gradient is 0.
KERNEL(128, 6)
step_rows(const Sources sources, const uint32* __restrict__ row_numbers, const State state, const Step parameters,
          uint32 rows, uint32 columns, uint32 touched_only) {
    const WorkItem work = work_item();
    if (work.item >= rows || work.column >= columns) return;
    const Node total = sum_row(sources, row_numbers, rows, columns, work);
    if (touched_only && !total.is_defined) return;
    step_numbers(parameters, state, total.sum, static_cast<uint64>(work.item) * columns + work.column);
}
