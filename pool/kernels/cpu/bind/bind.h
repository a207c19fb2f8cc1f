#pragma once

#include <nanobind/nanobind.h>

#include "common/bind/bind.h"

// The bindings of each noun; module.cpp lists them.
namespace sparsepool {

void bind_optimizers(nanobind::module_& module);
void bind_reduce(nanobind::module_& module);
void bind_launch(nanobind::module_& module);
void bind_memory(nanobind::module_& module);
void bind_sparse(nanobind::module_& module);

}  // namespace sparsepool
