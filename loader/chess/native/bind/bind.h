#pragma once

#include <nanobind/nanobind.h>

namespace sparsepool::chess {

void bind(nanobind::module_& module);  // everything below

void bind_census(nanobind::module_& module);  // after bind_entry_files
void bind_entry_files(nanobind::module_& module);
void bind_features(nanobind::module_& module);
void bind_filters(nanobind::module_& module);
void bind_keys(nanobind::module_& module);  // after bind_entry_files
void bind_python_reader(nanobind::module_& module);
void bind_records(nanobind::module_& module);
void bind_table(nanobind::module_& module);  // after bind_entry_files
void bind_units(nanobind::module_& module);  // after bind_entry_files

}  // namespace sparsepool::chess
