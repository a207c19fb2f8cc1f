#pragma once

// Hot code lives in headers and is compiled once per instruction set (sparsepool_kernels in CMakeLists.txt). Each build
// has an inline namespace of its own, so that the linker can never mix them.
#ifndef SPARSEPOOL_ISA
#define SPARSEPOOL_ISA baseline
#endif
