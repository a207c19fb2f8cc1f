#include "bind/bind.h"
#include "chess/native/bind/bind.h"
#include "rows/native/bind/bind.h"

// The formats' own bindings: loader/*/formats/NAME/native/bind.cpp.
#define SPARSEPOOL_PLUGIN(name)           \
    namespace sparsepool::name {          \
    void bind(nanobind::module_& module); \
    }
#include "chess_formats.inc"
#include "rows_formats.inc"
#undef SPARSEPOOL_PLUGIN

NB_MODULE(_native, module) {
    module.doc() = "Native part of loader.";
    sparsepool::bind_simd(module);
    sparsepool::bind_crash_point(module);
    sparsepool::bind_files(module);
    sparsepool::bind_stream(module);
    sparsepool::chess::bind(module);
    sparsepool::rows::bind(module);
#define SPARSEPOOL_PLUGIN(name) sparsepool::name::bind(module);
#include "chess_formats.inc"
#include "rows_formats.inc"
#undef SPARSEPOOL_PLUGIN
}
