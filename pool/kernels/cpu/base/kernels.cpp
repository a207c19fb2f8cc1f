#include "base/lists.h"

#include "base/numbers.h"
#include "common/isa.h"

namespace sparsepool {
namespace {

template <class Number>
std::uint32_t maximum_typed(const Numbers& numbers) {
    const Number* data = typed<Number>(numbers);
    Number best = 0;
    for (std::size_t i = 0; i < numbers.size; ++i) best = best < data[i] ? data[i] : best;
    return best;
}

std::uint32_t maximum(const Numbers& numbers) {
    return numbers.wide ? maximum_typed<std::uint32_t>(numbers) : maximum_typed<std::uint16_t>(numbers);
}

template <class Number>
bool ascending_typed(const Numbers& numbers, bool strictly) {
    const Number* data = typed<Number>(numbers);
    unsigned falls = 0;
    unsigned repeats = 0;
    for (std::size_t i = 1; i < numbers.size; ++i) {
        falls |= data[i] < data[i - 1] ? 1U : 0U;
        repeats |= data[i] == data[i - 1] ? 1U : 0U;
    }
    return falls == 0 && (repeats == 0 || !strictly);
}

bool ascending(const Numbers& numbers, bool strictly) {
    return numbers.wide ? ascending_typed<std::uint32_t>(numbers, strictly)
                        : ascending_typed<std::uint16_t>(numbers, strictly);
}

}  // namespace

const ListKernels ListKernels::SPARSEPOOL_ISA{sparsepool::maximum, sparsepool::ascending};

}  // namespace sparsepool
