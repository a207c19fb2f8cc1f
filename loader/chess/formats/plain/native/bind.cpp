#include <nanobind/nanobind.h>

#include "chess/formats/plain/native/format.h"
#include "chess/native/bind/codecs.h"

namespace sparsepool::plain {

void bind(nanobind::module_& module) { chess::bind_codec(module, "plain", &codec); }

}  // namespace sparsepool::plain
