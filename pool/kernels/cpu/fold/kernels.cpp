#include "fold/kernels.h"

#include "common/isa.h"
#include "fold/fold_kernel.h"

const sparsepool::FoldKernels sparsepool::FoldKernels::SPARSEPOOL_ISA{sparsepool::fold_all, sparsepool::fold_rows,
                                                                      sparsepool::copy_checked};
