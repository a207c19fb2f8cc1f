#include "optim/kernels.h"

#include "common/isa.h"
#include "optim/rowwise_kernel.h"
#include "optim/rules_kernel.h"
#include "optim/step_kernel.h"

const sparsepool::StepKernels sparsepool::StepKernels::SPARSEPOOL_ISA{
    {sparsepool::step_all<sparsepool::AdamRule, sparsepool::AdamStep>,
     sparsepool::step_rows<sparsepool::AdamRule, sparsepool::AdamStep>},
    {sparsepool::step_all<sparsepool::AdagradRule, sparsepool::AdagradStep>, sparsepool::rowwise_adagrad},
    {sparsepool::step_all<sparsepool::FtrlRule, sparsepool::FtrlStep>,
     sparsepool::step_rows<sparsepool::FtrlRule, sparsepool::FtrlStep>},
    {sparsepool::step_all<sparsepool::ClippedAdamWRule, sparsepool::ClippedAdamWStep>,
     sparsepool::step_rows<sparsepool::ClippedAdamWRule, sparsepool::ClippedAdamWStep>},
};
