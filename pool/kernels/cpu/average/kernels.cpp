#include "average/kernels.h"

#include "common/isa.h"
#include "vector/vec.h"

namespace sparsepool {
namespace {

void add(float* average, const float* weights, float rate, std::size_t first, std::size_t last) {
    const Vec share = Vec::all(rate);
    std::size_t i = first;
    for (; i + Vec::kWidth <= last; i += Vec::kWidth) {
        const Vec before = Vec::load(average + i);
        (before + share * (Vec::load(weights + i) - before)).store(average + i);
    }
    if (i < last) {
        const std::size_t n = last - i;
        const Vec before = Vec::load_part(average + i, n);
        (before + share * (Vec::load_part(weights + i, n) - before)).store_part(average + i, n);
    }
}

}  // namespace

const AverageKernels AverageKernels::SPARSEPOOL_ISA{sparsepool::add};

}  // namespace sparsepool
