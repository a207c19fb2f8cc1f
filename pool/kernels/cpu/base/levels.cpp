#include "common/simd.h"

// What a CPU needs for the builds that CMakeLists.txt makes.
bool sparsepool::simd::can_run(Level level) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    switch (level) {
        case Level::kAvx512:
            return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                   __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
        case Level::kAvx2: return __builtin_cpu_supports("avx2") != 0;
        case Level::kBaseline: break;
    }
#endif
    return level == Level::kBaseline;
}
