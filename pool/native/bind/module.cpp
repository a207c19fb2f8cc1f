#include "bind.h"

NB_MODULE(_native, module) {
    module.doc() = "Native part of pool: sparse layer, reduction.";
    bind_simd(module);
    bind_sparse_layer(module);
    bind_fold(module);
    bind_memory(module);
}
