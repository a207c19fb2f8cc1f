#include "memory.h"

#include "bind.h"

void bind_memory(nanobind::module_& module) {
    module.def("keep_freed_memory", &sparsepool::keep_freed_memory);
    module.def("return_free_memory", &sparsepool::return_free_memory);
}
