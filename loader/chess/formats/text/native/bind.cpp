#include <nanobind/nanobind.h>

#include "chess/formats/text/native/format.h"
#include "chess/native/bind/codecs.h"

namespace sparsepool::text {

void bind(nanobind::module_& module) { chess::bind_codec(module, "text", &codec); }

}  // namespace sparsepool::text
