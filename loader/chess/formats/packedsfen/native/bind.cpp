#include <nanobind/nanobind.h>

#include "chess/formats/packedsfen/native/format.h"
#include "chess/native/bind/codecs.h"

namespace sparsepool::packedsfen {

void bind(nanobind::module_& module) { chess::bind_codec(module, "packedsfen", &codec); }

}  // namespace sparsepool::packedsfen
