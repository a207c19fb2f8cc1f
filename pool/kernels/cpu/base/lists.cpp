#include "base/lists.h"

#include "common/check.h"
#include "common/simd.h"

namespace sparsepool {

void check_threads(std::size_t threads) {
    require(threads >= 1 && threads <= kMaxThreads, "threads must be 1 to ", kMaxThreads, ", not ", threads);
}

void check_offsets(const char* name, Offsets offsets, std::size_t first, std::size_t last, std::size_t total) {
    const Numbers numbers{offsets.data + first, last - first + 1, true};
    if (!simd::kernels<ListKernels>().ascending(numbers, false)) {
        std::size_t i = first;
        while (offsets.data[i] <= offsets.data[i + 1]) ++i;
        refuse(name, "[", i + 1, "] = ", offsets.data[i + 1], " is below ", name, "[", i, "] = ", offsets.data[i]);
    }
    require(offsets.data[last] <= total, name, "[", last, "] = ", offsets.data[last], " is beyond the ", total,
            " numbers that it points into");
}

void check_below(const char* name, const Numbers& numbers, std::size_t limit, const char* what) {
    if (numbers.size == 0) return;
    const std::uint32_t max = simd::kernels<ListKernels>().maximum(numbers);
    require(max < limit, name, " holds ", max, ", but there are ", limit, " ", what);
}

void check_bags(Offsets offsets, const Numbers& features) {
    require(offsets.size >= 1, "offsets is empty; it must have one number more than there are bags");
    const std::size_t bags = offsets.size - 1;
    check_offsets("offsets", offsets, 0, bags, features.size);
    require(offsets.data[0] == 0 && offsets.data[bags] == features.size, "offsets go from ", offsets.data[0], " to ",
            offsets.data[bags], ", but must go from 0 to the ", features.size, " features");
}

}  // namespace sparsepool
