// Compiled with the options of SimdLevel::kAvx512 (CMakeLists.txt).
#define SPARSEPOOL_ISA avx512
#include "kernels.h"

#include "batch/build.h"
#include "formats/binpack/lanes.h"
#include "random/philox_many.h"

namespace sparsepool {

const Kernels kAvx512Kernels{"avx512", binpack::read_lanes, random::philox_many, batch::build_batch};

}  // namespace sparsepool
