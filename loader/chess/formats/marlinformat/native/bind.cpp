#include <nanobind/nanobind.h>

#include "chess/formats/marlinformat/native/format.h"
#include "chess/native/bind/codecs.h"

namespace sparsepool::marlinformat {

void bind(nanobind::module_& module) { chess::bind_codec(module, "marlinformat", &codec); }

}  // namespace sparsepool::marlinformat
