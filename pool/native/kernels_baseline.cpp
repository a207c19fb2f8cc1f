#include "kernels.inc"

const sparsepool::Kernels sparsepool::BASELINE_KERNELS = sparsepool::kernels("baseline");
