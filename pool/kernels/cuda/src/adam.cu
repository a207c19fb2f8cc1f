#include "tree.cuh"

// Adam along with the fold of its gradient: sums, moments and the new weights in one pass over memory. The formulas,
// and their order, are those of pool/kernels/cpu/optim/adam.h and rules_kernel.h, to the bit.

struct Step {
    float scale;        // of the summed gradients
    float mean_rate;    // 1 - beta1
    float square_keep;  // beta2
    float square_rate;  // 1 - beta2
    float step_size;    // learning rate / (1 - beta1^t)
    float root_scale;   // 1 / sqrt(1 - beta2^t)
    float epsilon;
    float decay;   // added to the gradient, times the weight
    float shrink;  // the weight is multiplied by it first
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
        float w = weight.at[i];
        const float gradient = sum.at[i] * step.scale + step.decay * w;
        w = w * step.shrink;
        const float m = mean.at[i] + step.mean_rate * (gradient - mean.at[i]);
        const float v = square.at[i] * step.square_keep + step.square_rate * gradient * gradient;
        weight.at[i] = w - step.step_size * m / (sqrtf(v) * step.root_scale + step.epsilon);
        mean.at[i] = m;
        square.at[i] = v;
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
