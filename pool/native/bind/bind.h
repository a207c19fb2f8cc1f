// The bindings of each noun; module.cpp lists them.
#pragma once

#include <nanobind/nanobind.h>

void bind_adam(nanobind::module_& module);
void bind_crash_point(nanobind::module_& module);
void bind_crc32c(nanobind::module_& module);
void bind_fold(nanobind::module_& module);
void bind_layer_stacks(nanobind::module_& module);
void bind_memory(nanobind::module_& module);
void bind_simd(nanobind::module_& module);
void bind_sparse_layer(nanobind::module_& module);
void bind_sparse_plan(nanobind::module_& module);
