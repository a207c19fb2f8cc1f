#include <nanobind/nanobind.h>

#include "chess/formats/fen_csv/native/format.h"
#include "chess/native/bind/codecs.h"

namespace sparsepool::fen_csv {

void bind(nanobind::module_& module) { chess::bind_codec(module, "fen_csv", &codec); }

}  // namespace sparsepool::fen_csv
