#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "chess/formats/pgn/native/format.h"
#include "chess/formats/pgn/native/game.h"
#include "chess/native/bind/codecs.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::pgn {
namespace {

const chess::Codec& bound_codec(const std::optional<std::string>& view, const std::optional<std::string>& unit) {
    CommentSettings settings;
    // None leaves a setting unknown.
    require(!view || *view == "mover" || *view == "white", "view is None, mover or white");
    require(!unit || *unit == "pawns" || *unit == "centipawns", "unit is None, pawns or centipawns");
    if (view) settings.view = *view == "mover" ? View::kMover : View::kWhite;
    if (unit) settings.unit = *unit == "pawns" ? Unit::kPawns : Unit::kCentipawns;
    return codec_of(settings);
}

std::optional<bool> is_chess960(const std::string& variant) {
    bool chess960 = false;
    if (!is_chess(variant, chess960)) return std::nullopt;
    return chess960;
}

}  // namespace

void bind(nb::module_& module) {
    module.def("pgn", &bound_codec, nb::rv_policy::reference, "view"_a = nb::none(), "unit"_a = nb::none(),
               "The format of this name, both ways. view: whose scores comments have, mover or white; unit: what their "
               "whole numbers are, pawns or centipawns; None: not known.");
    module.def("is_chess960", &is_chess960, "variant"_a,
               "Whether a tag Variant of PGN names Chess960, not chess; None: it names another game.");
}

}  // namespace sparsepool::pgn
