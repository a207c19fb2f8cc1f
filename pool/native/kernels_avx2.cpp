#include "kernels.inc"

const sparsepool::Kernels sparsepool::AVX2_KERNELS = sparsepool::kernels("avx2");
