#include "chess/native/census.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "chess/native/bind/bind.h"

namespace nb = nanobind;

namespace sparsepool::chess {
namespace {

using Counts = nb::ndarray<nb::numpy, const std::uint64_t, nb::ndim<1>, nb::c_contig>;

template <auto kMember>
Counts counts(nb::handle_t<Census> self) {
    const auto& values = nb::cast<const Census&>(self).*kMember;
    return Counts(values.data(), {values.size()}, self);
}

}  // namespace

void bind_census(nb::module_& module) {
    nb::class_<Census>(module, "Census", "Counts over entries. Not for two threads at once.")
        .def(nb::init<>())
        .def_ro("entries", &Census::entries)
        .def_ro("white_to_move", &Census::white_to_move)
        .def_ro("in_check", &Census::in_check)
        .def_ro("captures", &Census::captures)
        .def_prop_ro("results", &counts<&Census::results>, "loss, draw, win")
        .def_prop_ro("move_types", &counts<&Census::move_types>, "normal, promotion, castling, en passant")
        .def_prop_ro("piece_counts", &counts<&Census::piece_counts>, "by number of pieces, 0 to 32")
        .def_prop_ro("scores", &counts<&Census::scores>, "by score + 32768")
        .def_prop_ro("plies", &counts<&Census::plies>, "by ply");
}

}  // namespace sparsepool::chess
