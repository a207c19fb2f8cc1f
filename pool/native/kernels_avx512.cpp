#include "kernels.inc"

const sparsepool::Kernels sparsepool::AVX512_KERNELS = sparsepool::kernels("avx512");
