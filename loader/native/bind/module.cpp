#include "bind/bind.h"

NB_MODULE(_native, module) {
    module.doc() = "Native part of loader.";
    bind_binpack(module);
    bind_crash_point(module);
    bind_features(module);
    bind_order(module);
    bind_simd(module);
    bind_stream(module);
}
