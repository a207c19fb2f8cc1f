#include "random/philox_many_kernel.h"

const sparsepool::random::Kernels sparsepool::random::Kernels::SPARSEPOOL_ISA{sparsepool::random::philox_many_kernel};
