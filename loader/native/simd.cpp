#include "simd.h"

#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace sparsepool {
namespace {

#if defined(__x86_64__)
// Not every compiler's __builtin_cpu_supports knows this one.
bool has_lzcnt() {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
}

bool has_avx2() {
    // The first two generations of Zen have a pdep that takes hundreds of cycles.
    const bool slow_pdep = __builtin_cpu_is("znver1") != 0 || __builtin_cpu_is("znver2") != 0;
    return !slow_pdep && __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("bmi") != 0 &&
           __builtin_cpu_supports("bmi2") != 0 && __builtin_cpu_supports("popcnt") != 0 && has_lzcnt();
}

bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
           __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
           __builtin_cpu_supports("avx512vbmi") != 0 && __builtin_cpu_supports("avx512vbmi2") != 0 &&
           __builtin_cpu_supports("gfni") != 0;
}
#endif

std::vector<const Kernels*> available() {
    std::vector<const Kernels*> levels{&kBaselineKernels};
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (has_avx2()) levels.push_back(&kAvx2Kernels);
    if (has_avx512()) levels.push_back(&kAvx512Kernels);
#endif
    return levels;
}

std::atomic<const Kernels*>& current() {
    static std::atomic<const Kernels*> level{available().back()};
    return level;
}

}  // namespace

const Kernels& kernels() { return *current().load(std::memory_order_relaxed); }

std::vector<std::string> simd_levels() {
    std::vector<std::string> names;
    for (const Kernels* level : available()) names.emplace_back(level->name);
    return names;
}

bool set_simd_level(const std::string& name) {
    for (const Kernels* level : available()) {
        if (name != level->name) continue;
        current().store(level, std::memory_order_relaxed);
        return true;
    }
    return false;
}

}  // namespace sparsepool
