#include "stacks.cuh"

// The small layers of a stack, after the wide layer. Each thread has one sample, whose rows it reads and writes 4
// numbers at a time. WIDTH is 4.

// total += the activations of a hidden layer, whose outputs begin at `y`, times kOutputs rows of weights.
template <uint32 kOutputs>
static __device__ __forceinline__ void add_activations(float (&total)[kOutputs], const Hidden& hidden, const float* y,
                                                       const float* weight, uint32 inputs, uint32 outputs,
                                                       const Form& form) {
    for (uint32 first = 0; first < hidden.active; first += WIDTH) {
        const Floats numbers = load_floats(y + first);
        UNROLL
        for (uint32 k = 0; k < WIDTH; ++k) {
            if (first + k >= hidden.active) continue;
            const float* const w = weight + first + k;
            const float number = activation(hidden, numbers.at[k], false, form);
            UNROLL
            for (uint32 o = 0; o < kOutputs; ++o) {
                if (o < outputs) total[o] = total[o] + number * w[static_cast<uint64>(o) * inputs];
            }
            if (hidden.kind != kBoth) continue;
            const float second = activation(hidden, numbers.at[k], true, form);
            UNROLL
            for (uint32 o = 0; o < kOutputs; ++o) {
                if (o < outputs) total[o] = total[o] + second * w[static_cast<uint64>(o) * inputs + hidden.active];
            }
        }
    }
}

// Computes kOutputs outputs of a layer, from number `first` on, before activation.
template <uint32 kOutputs>
static __device__ __forceinline__ void compute_outputs(float (&total)[kOutputs], uint32 layer, uint32 first,
                                                       const Form& form, const Parameters& parameters, uint32 bucket,
                                                       const float* row) {
    const uint32 all = outputs_of(form, layer);
    const uint32 outputs = all - first < kOutputs ? all - first : kOutputs;
    const uint32 inputs = inputs_of(form, layer);
    const uint64 at = static_cast<uint64>(bucket) * all + first;
    const float* weight = parameters.weight[layer] + at * inputs;
    UNROLL
    for (uint32 o = 0; o < kOutputs; ++o) total[o] = o < outputs ? parameters.bias[layer][at + o] : 0.0F;
    UNROLL
    for (uint32 seen = first_seen(layer); seen < layer; ++seen) {
        const Hidden& hidden = form.hidden[seen];
        add_activations(total, hidden, row + hidden.begin, weight, inputs, outputs, form);
        weight += activations(hidden);
    }
}

// Output o of the wide layer: its bias plus the parts of its product, in their order.
static __device__ __forceinline__ float add_parts(const float* products, const float* bias, uint32 samples,
                                                  uint32 sample, uint32 outputs, uint32 parts, uint32 o) {
    float total = bias[o];
    const float* from = products + static_cast<uint64>(o) * samples + sample;
    UNROLL_BY(4)
    for (uint32 p = 0; p < parts; ++p) total = total + from[static_cast<uint64>(p) * outputs * samples];
    return total;
}

// products [parts, outputs, samples]: of the wide layer, without its bias; extra [samples] or null: added to the
// result; kept [samples, form.row]: the hidden layers' outputs; out [samples].
KERNEL(128, 4)
stacks_forward(const float* __restrict__ products, const float* __restrict__ extra, const Parameters parameters,
               const Form form, const Borders from, float* kept, float* __restrict__ out, uint32 samples,
               uint32 parts) {
    const uint64 i = item();
    if (i >= samples) return;
    const uint32 sample = static_cast<uint32>(i);
    const uint32 bucket = bucket_of(from, sample);
    const uint32 wide = outputs_of(form, 0);
    const float* const bias = parameters.bias[0] + static_cast<uint64>(bucket) * wide;
    float* const row = kept + i * form.row;
    float result = 0.0F;
    if (HIDDEN == 0) {
        result = add_parts(products, bias, samples, sample, wide, parts, 0);
    } else {
        for (uint32 o = 0; o < wide; ++o) row[o] = add_parts(products, bias, samples, sample, wide, parts, o);
    }
    UNROLL
    for (uint32 layer = 1; layer + 1 < kLayers; ++layer) {
        for (uint32 first = 0; first < form.hidden[layer].outputs; first += kTile) {
            float total[kTile];
            compute_outputs(total, layer, first, form, parameters, bucket, row);
            UNROLL
            for (uint32 o = 0; o < kTile; ++o) {
                if (first + o < form.hidden[layer].outputs) row[form.hidden[layer].begin + first + o] = total[o];
            }
        }
    }
    if (HIDDEN > 0) {
        float total[1];
        compute_outputs(total, HIDDEN, 0, form, parameters, bucket, row);
        result = total[0];
        if (form.skip == 1) result = result + row[wide - 1];
        if (form.skip == 2) result = result + (row[wide - 2] - row[wide - 1]);
    }
    out[i] = extra ? result + extra[i] : result;
}

// Adds the gradients of `count` inputs of a layer, from column `column` on. The gradients of its outputs begin at
// `slopes`.
static __device__ __forceinline__ void add_slopes(Floats& total, const float* slopes, const float* weight,
                                                  uint32 outputs, uint32 inputs, uint32 column, uint32 count) {
    for (uint32 first = 0; first < outputs; first += WIDTH) {
        const Floats numbers = load_floats(slopes + first);
        UNROLL
        for (uint32 k = 0; k < WIDTH; ++k) {
            if (first + k >= outputs) continue;
            const float* const w = weight + static_cast<uint64>(first + k) * inputs + column;
            UNROLL
            for (uint32 c = 0; c < WIDTH; ++c) {
                if (c < count) total.at[c] = total.at[c] + numbers.at[k] * w[c];
            }
        }
    }
}

// The gradients of WIDTH activations of hidden layer `layer`, from column `column` on: sums over all layers that read
// them.
static __device__ __forceinline__ Floats sum_slopes(uint32 layer, const Form& form, const Parameters& parameters,
                                                    uint32 bucket, const float* slopes, uint32 column, uint32 count) {
    Floats total = zeros();
    UNROLL
    for (uint32 user = layer + 1; user < kLayers; ++user) {
        if (first_seen(user) > layer) continue;
        uint32 before = 0;  // columns of the hidden layers that it sees before this one
        UNROLL
        for (uint32 seen = first_seen(user); seen < layer; ++seen) before += activations(form.hidden[seen]);
        const uint32 inputs = inputs_of(form, user), outputs = outputs_of(form, user);
        const float* const weight = parameters.weight[user] + static_cast<uint64>(bucket) * outputs * inputs;
        add_slopes(total, slopes + slopes_of(form, user), weight, outputs, inputs, before + column, count);
    }
    return total;
}

// gradient [samples]: of `out`; slopes [samples, form.row + 4]: of the hidden layers' outputs, then the same again.
KERNEL(128, 4)
stacks_backward(const float* __restrict__ gradient, const Parameters parameters, const Form form, const Borders from,
                const float* __restrict__ kept, float* slopes, uint32 samples) {
    const uint64 i = item();
    if (i >= samples) return;
    const uint32 bucket = bucket_of(from, static_cast<uint32>(i));
    const float* const row = kept + i * form.row;
    float* const to = slopes + i * (form.row + 4);
    const float grad_result = gradient[i];
    Floats last = zeros();
    last.at[0] = grad_result;
    store_floats(last, to + form.row);
    UNROLL
    for (uint32 back = 0; back + 1 < kLayers; ++back) {
        const uint32 layer = HIDDEN - 1 - back;
        const Hidden& hidden = form.hidden[layer];
        for (uint32 first = 0; first < hidden.outputs; first += WIDTH) {
            const uint32 count = hidden.active < first ? 0 : hidden.active - first;
            const Floats numbers = load_floats(row + hidden.begin + first);
            const Floats firsts = sum_slopes(layer, form, parameters, bucket, to, first, count);
            Floats seconds = zeros();
            if (hidden.kind == kBoth) {
                seconds = sum_slopes(layer, form, parameters, bucket, to, hidden.active + first, count);
            }
            Floats grad_outputs = zeros();
            UNROLL
            for (uint32 k = 0; k < WIDTH; ++k) {
                if (k < count) grad_outputs.at[k] = slope(hidden, numbers.at[k], firsts.at[k], seconds.at[k], form);
                if (layer > 0 || form.skip == 0) continue;
                if (first + k + 1 == hidden.outputs)
                    grad_outputs.at[k] += form.skip == 2 ? 0.0F - grad_result : grad_result;
                if (first + k + 2 == hidden.outputs && form.skip == 2) grad_outputs.at[k] += grad_result;
            }
            store_floats(grad_outputs, to + hidden.begin + first);
        }
    }
}
