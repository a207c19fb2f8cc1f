#pragma once

#include <nanobind/nanobind.h>

#include "common/bind/bind.h"

// The bindings of each noun; module.cpp lists them.
namespace sparsepool {

void bind_average(nanobind::module_& module);
void bind_optimizers(nanobind::module_& module);
void bind_fold(nanobind::module_& module);
void bind_memory(nanobind::module_& module);
void bind_rounding(nanobind::module_& module);
void bind_rows(nanobind::module_& module);
void bind_sparse_layer(nanobind::module_& module);
void bind_sparse_plan(nanobind::module_& module);

}  // namespace sparsepool
