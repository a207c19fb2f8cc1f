#include "kernels.h"

#include "batch/build.h"
#include "formats/binpack/lanes.h"
#include "random/philox_many.h"

namespace sparsepool {

const Kernels kBaselineKernels{"baseline", binpack::read_lanes, random::philox_many, batch::build_batch};

}  // namespace sparsepool
