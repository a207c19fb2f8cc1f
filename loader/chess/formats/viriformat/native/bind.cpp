#include <nanobind/nanobind.h>

#include "chess/formats/viriformat/native/format.h"
#include "chess/native/bind/codecs.h"

namespace sparsepool::viriformat {

void bind(nanobind::module_& module) { chess::bind_codec(module, "viriformat", &codec); }

}  // namespace sparsepool::viriformat
