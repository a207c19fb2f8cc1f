#pragma once

#if defined(__x86_64__)
#include <cpuid.h>

// What instructions this CPU has, beyond what the compiler's __builtin_cpu_supports says.
namespace sparsepool::cpu {

// Not every compiler's __builtin_cpu_supports knows this one.
[[nodiscard]] inline bool has_lzcnt() {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
}

// BMI2's pdep and pext as one fast instruction: the first two generations of Zen take hundreds of cycles.
[[nodiscard]] inline bool has_fast_bit_moves() {
    const bool slow = __builtin_cpu_is("znver1") != 0 || __builtin_cpu_is("znver2") != 0;
    return !slow && __builtin_cpu_supports("bmi2") != 0;
}

}  // namespace sparsepool::cpu
#endif
