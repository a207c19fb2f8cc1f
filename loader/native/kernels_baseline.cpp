#include "kernels.h"

#include "batch/build.h"
#include "formats/binpack/lanes.h"

namespace sparsepool {

const Kernels kBaselineKernels{"baseline", binpack::read_lanes, batch::build_batch};

}  // namespace sparsepool
