#include "bind.h"

NB_MODULE(_native, module) {
    module.doc() = "Native part of pool: sparse layer, layer stacks, reduction, optimizer, checksum.";
    bind_simd(module);
    bind_sparse_layer(module);
    bind_sparse_plan(module);
    bind_fold(module);
    bind_adam(module);
    bind_layer_stacks(module);
    bind_memory(module);
    bind_crc32c(module);
    bind_crash_point(module);
}
