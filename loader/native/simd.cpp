#include "simd.h"

#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace sparsepool {
namespace {

constexpr SimdLevel kLevels[] = {SimdLevel::kBaseline, SimdLevel::kAvx2};

#if defined(__x86_64__)
// Not every compiler's __builtin_cpu_supports knows this one.
bool has_lzcnt() {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
}
#endif

bool has(SimdLevel level) {
    if (level == SimdLevel::kBaseline) return true;
#if defined(__x86_64__)
    __builtin_cpu_init();
    // The first two generations of Zen have a pdep that takes hundreds of cycles.
    const bool slow_pdep = __builtin_cpu_is("znver1") != 0 || __builtin_cpu_is("znver2") != 0;
    return !slow_pdep && __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("bmi") != 0 &&
           __builtin_cpu_supports("bmi2") != 0 && __builtin_cpu_supports("popcnt") != 0 &&
           has_lzcnt();
#else
    return false;
#endif
}

std::atomic<SimdLevel>& current() {
    static std::atomic<SimdLevel> level{has(SimdLevel::kAvx2) ? SimdLevel::kAvx2 : SimdLevel::kBaseline};
    return level;
}

}  // namespace

SimdLevel simd_level() { return current().load(std::memory_order_relaxed); }

std::string simd_level_name(SimdLevel level) { return level == SimdLevel::kAvx2 ? "avx2" : "baseline"; }

std::vector<std::string> simd_levels() {
    std::vector<std::string> names;
    for (const SimdLevel level : kLevels) {
        if (has(level)) names.push_back(simd_level_name(level));
    }
    return names;
}

bool set_simd_level(const std::string& name) {
    for (const SimdLevel level : kLevels) {
        if (!has(level) || simd_level_name(level) != name) continue;
        current().store(level, std::memory_order_relaxed);
        return true;
    }
    return false;
}

}  // namespace sparsepool
