#include "simd.h"

#include <atomic>
#include <stdexcept>

namespace sparsepool {
namespace {

std::vector<const Kernels*> available() {
    std::vector<const Kernels*> levels{&BASELINE_KERNELS};
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) {
        levels.push_back(&AVX2_KERNELS);
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        levels.push_back(&AVX512_KERNELS);
    }
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
    for (const Kernels* level : available()) {
        names.emplace_back(level->name);
    }
    return names;
}

void set_simd_level(const std::string& name) {
    std::string allowed;
    for (const Kernels* level : available()) {
        if (name == level->name) {
            current().store(level, std::memory_order_relaxed);
            return;
        }
        allowed += (allowed.empty() ? "" : ", ") + std::string(level->name);
    }
    throw std::invalid_argument("SIMD level '" + name + "' is not one of those that this CPU has: " + allowed);
}

std::string build_info() {
#if defined(__clang__)
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}

}  // namespace sparsepool
