#include <nanobind/nanobind.h>

#include "chess/formats/lichess_evals/native/format.h"
#include "chess/native/bind/codecs.h"

namespace sparsepool::lichess_evals {

void bind(nanobind::module_& module) { chess::bind_codec(module, "lichess_evals", &codec); }

}  // namespace sparsepool::lichess_evals
