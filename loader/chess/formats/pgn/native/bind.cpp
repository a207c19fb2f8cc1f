#include <nanobind/nanobind.h>

#include "chess/formats/pgn/native/format.h"
#include "chess/native/bind/codecs.h"

namespace sparsepool::pgn {

void bind(nanobind::module_& module) { chess::bind_codec(module, "pgn", &codec); }

}  // namespace sparsepool::pgn
