#include "common/cpu.h"
#include "common/simd.h"

// What a CPU needs for the builds that CMakeLists.txt makes: AVX-512 as of Ice Lake and Zen 4.
bool sparsepool::simd::can_run(Level level) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("bmi") != 0 &&
                      __builtin_cpu_supports("popcnt") != 0 && cpu::has_fast_bit_moves() && cpu::has_lzcnt();
    switch (level) {
        case Level::kAvx512:
            return avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                   __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
                   __builtin_cpu_supports("avx512vbmi") != 0 && __builtin_cpu_supports("avx512vbmi2") != 0 &&
                   __builtin_cpu_supports("gfni") != 0;
        case Level::kAvx2: return avx2;
        case Level::kBaseline: break;
    }
#endif
    return level == Level::kBaseline;
}
