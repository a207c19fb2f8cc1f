#pragma once

#include <nanobind/nanobind.h>

#include "common/bind/bind.h"

// One function a noun; module.cpp calls them all.
namespace sparsepool {

void bind_files(nanobind::module_& module);
void bind_stream(nanobind::module_& module);

}  // namespace sparsepool
