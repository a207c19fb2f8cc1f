#include <nanobind/nanobind.h>

NB_MODULE(_native, module) {
    module.doc() = "Native part of pool.";
}
