#pragma once

#include <nanobind/nanobind.h>

namespace sparsepool::rows {

void bind(nanobind::module_& module);  // everything below

void bind_blocks(nanobind::module_& module);
void bind_feature_hash(nanobind::module_& module);
void bind_line_files(nanobind::module_& module);
void bind_python_reader(nanobind::module_& module);

}  // namespace sparsepool::rows
