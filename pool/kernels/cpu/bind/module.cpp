#include "bind/bind.h"

// The tasks' own bindings: pool/tasks/NAME/native/bind.cpp.
#define SPARSEPOOL_PLUGIN(name)           \
    namespace sparsepool::name {          \
    void bind(nanobind::module_& module); \
    }
#include "tasks.inc"
#undef SPARSEPOOL_PLUGIN

NB_MODULE(_native, module) {
    using namespace sparsepool;
    module.doc() =
        "Kernels on CPU memory, no copies, the GIL released while they run; and what the tasks have.\n\n"
        "Arrays are torch CPU tensors or numpy arrays (read-only ones too, where they are only read), contiguous, of\n"
        "exactly the dtype named. What does not fit is a ValueError that names the argument and the numbers; it is\n"
        "raised before anything is written. Every result has the same bits for any number of threads (1 to 1024) and\n"
        "at every SIMD level.";
    bind_simd(module);
    bind_sparse(module);
    bind_reduce(module);
    bind_optimizers(module);
    bind_memory(module);
    bind_launch(module);
    bind_crash_point(module);
#define SPARSEPOOL_PLUGIN(name) sparsepool::name::bind(module);
#include "tasks.inc"
#undef SPARSEPOOL_PLUGIN
}
