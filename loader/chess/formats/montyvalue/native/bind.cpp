#include <nanobind/nanobind.h>

#include "chess/native/bind/codecs.h"
#include "chess/formats/montyvalue/native/codec.h"

namespace sparsepool::montyvalue {

void bind(nanobind::module_& module) { chess::bind_codec(module, "montyvalue", &codec); }

}  // namespace sparsepool::montyvalue
