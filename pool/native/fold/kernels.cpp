#include "fold/kernels.h"

#include "common/isa.h"
#include "fold/adam_kernel.h"
#include "fold/fold_kernel.h"

const sparsepool::FoldKernels sparsepool::FoldKernels::SPARSEPOOL_ISA{
    sparsepool::fold_all, sparsepool::fold_rows, sparsepool::copy_checked, sparsepool::adam_all, sparsepool::adam_rows};
