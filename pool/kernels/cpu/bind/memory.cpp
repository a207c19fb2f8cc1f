#include "process/memory.h"

#include "bind/bind.h"

namespace sparsepool {
void bind_memory(nanobind::module_& module) {
    module.def("keep_freed_memory", &keep_freed_memory,
               R"(Tells malloc to keep large blocks when they are freed: no page faults for the next step's activations.

For a process that allocates the same sizes step after step, before its first large tensor. The process
keeps its high-water mark. The heap's first 1.9 GB come in huge pages, where the system allows them. False
where the C library has no such setting.)");
    module.def("return_free_memory", &return_free_memory,
               R"(Gives back what is free in the heap now, but for its end, although `keep_freed_memory` was called.

For a process whose beginning took more than its steps do.)");
}

}  // namespace sparsepool
