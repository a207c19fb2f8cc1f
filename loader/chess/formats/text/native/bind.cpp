#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include "chess/formats/text/native/format.h"
#include "chess/formats/text/native/lines.h"
#include "chess/native/bind/codecs.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::text {
namespace {

std::shared_ptr<const chess::EntryFile> open_file(const FileName& name, const std::optional<Identity>& identity,
                                                  bool may_grow, bool needs_ply,
                                                  const std::optional<std::string>& on_illegal, bool every) {
    const chess::Demands demands = chess::demands_of(needs_ply, on_illegal, every);
    return chess::opened_file(name, identity, may_grow, [&](const std::optional<ExpectedFile>& expected) {
        return open_lines(name.path, expected, demands);
    });
}

}  // namespace

void bind(nb::module_& module) {
    chess::bind_codec(module, "text", &codec);
    module.def("open_text", &open_file, "path"_a, "identity"_a = nb::none(), "may_grow"_a = false,
               "needs_ply"_a = false, "on_illegal"_a = nb::none(), "every"_a = false, "As open_entries, of lines.");
}

}  // namespace sparsepool::text
