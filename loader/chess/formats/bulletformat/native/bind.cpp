#include <nanobind/nanobind.h>

#include "chess/formats/bulletformat/native/format.h"
#include "chess/native/bind/codecs.h"

namespace sparsepool::bulletformat {

void bind(nanobind::module_& module) { chess::bind_codec(module, "bulletformat", &codec); }

}  // namespace sparsepool::bulletformat
