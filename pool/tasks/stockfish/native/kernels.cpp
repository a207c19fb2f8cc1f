#include "tasks/stockfish/native/kernels.h"

#include "common/isa.h"
#include "tasks/stockfish/native/layer_stacks_kernel.h"

const sparsepool::stockfish::StackKernels sparsepool::stockfish::StackKernels::SPARSEPOOL_ISA{
    sparsepool::stockfish::stack_forward, sparsepool::stockfish::stack_backward};
