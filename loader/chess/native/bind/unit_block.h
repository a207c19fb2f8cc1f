#pragma once

#include <nanobind/nanobind.h>

#include "chess/native/files/units.h"

namespace sparsepool::chess {

// (bytes, ends uint64, entries uint32, fault or None), as `loader.chess.files.units.UnitBlock` takes them.
[[nodiscard]] nanobind::object unit_tuple(UnitBlock block);

}  // namespace sparsepool::chess
