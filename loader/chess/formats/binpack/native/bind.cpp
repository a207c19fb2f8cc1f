#include <nanobind/nanobind.h>

#include "chess/formats/binpack/native/format.h"
#include "chess/formats/binpack/native/writer.h"
#include "chess/native/bind/codecs.h"

namespace nb = nanobind;

namespace sparsepool::binpack {

void bind(nb::module_& module) {
    chess::bind_codec(module, "binpack", &codec);
    nb::class_<Writer, chess::EntryWriter>(module, "BinpackWriter", "What the codec's make_writer gives.")
        .def_prop_ro("chains", &Writer::chains)
        .def_prop_ro("chunks", &Writer::chunks);
}

}  // namespace sparsepool::binpack
