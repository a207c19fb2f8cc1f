// Compiled with the options of SimdLevel::kAvx2 (CMakeLists.txt).
#define SPARSEPOOL_ISA avx2
#include "kernels.h"

#include "batch/build.h"
#include "formats/binpack/lanes.h"
#include "random/philox_many.h"

namespace sparsepool {

const Kernels kAvx2Kernels{"avx2", binpack::read_lanes, random::philox_many, batch::build_batch};

}  // namespace sparsepool
