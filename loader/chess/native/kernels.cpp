#include "chess/native/kernels.h"

#include "chess/native/batch/build.h"

const sparsepool::chess::Kernels sparsepool::chess::Kernels::SPARSEPOOL_ISA{sparsepool::chess::build_batch};
