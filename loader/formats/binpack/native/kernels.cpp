#include "formats/binpack/native/kernels.h"

#include "formats/binpack/native/entries/lanes.h"

const sparsepool::binpack::Kernels sparsepool::binpack::Kernels::SPARSEPOOL_ISA{sparsepool::binpack::read_lanes};
