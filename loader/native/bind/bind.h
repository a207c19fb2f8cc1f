#pragma once

#include <nanobind/nanobind.h>

// One function a noun; module.cpp calls them all.
void bind_binpack(nanobind::module_& module);
void bind_crash_point(nanobind::module_& module);
void bind_features(nanobind::module_& module);
void bind_order(nanobind::module_& module);
void bind_simd(nanobind::module_& module);
void bind_stream(nanobind::module_& module);
