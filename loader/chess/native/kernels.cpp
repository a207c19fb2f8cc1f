#include "chess/native/kernels.h"

#include "chess/native/batch/build.h"
#include "chess/native/make_record.h"

const sparsepool::chess::Kernels sparsepool::chess::Kernels::SPARSEPOOL_ISA{sparsepool::chess::build_batch,
                                                                            &sparsepool::chess::write_record<true>};
