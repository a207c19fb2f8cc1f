#include <nanobind/nanobind.h>

#include "chess/formats/montyvalue/native/format.h"
#include "chess/native/bind/codecs.h"

namespace sparsepool::montyvalue {

void bind(nanobind::module_& module) { chess::bind_codec(module, "montyvalue", &codec); }

}  // namespace sparsepool::montyvalue
