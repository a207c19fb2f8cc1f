// What libFuzzer calls, the same for every target: the target's check under a bound of its CPU time.

#include "cpu_bound.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace std::chrono_literals;
    const sparsepool::fuzz::CpuBound bound(2s);  // the slowest seed takes 11 ms
    sparsepool::fuzz::check_input(data, size);
    return 0;
}
