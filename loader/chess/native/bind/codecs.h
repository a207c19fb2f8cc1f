#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bind/errors.h"
#include "bind/files.h"
#include "chess/native/files/codec.h"
#include "chess/native/files/file.h"
#include "common/check.h"

// What the bindings of formats have in common.
namespace sparsepool::chess {

// The function `name` of the module, which gives a format's codec.
inline void bind_codec(nanobind::module_& module, const char* name, const Codec& (*codec)()) {
    module.def(name, codec, nanobind::rv_policy::reference, "The format of this name, both ways.");
}

// Parts of an entry by name, as loader/chess/filters has them, as EntryPart; without those that formats have or lack.
[[nodiscard]] inline unsigned parts_of(const std::vector<std::string>& names) {
    constexpr std::pair<std::string_view, EntryPart> kParts[] = {{"castling rights", kRightsPart},
                                                                 {"en passant", kEnPassantPart},
                                                                 {"half-move clock", kClockPart},
                                                                 {"ply", kPlyPart}};
    unsigned parts = 0;
    for (const auto& [name, part] : kParts)
        parts |= std::ranges::find(names, name) != names.end() ? unsigned{part} : 0U;
    return parts;
}

// `needed`: parts that a filter needs. `bad_data`: null keeps illegal positions, "stop" takes them for damage, "count"
// leaves them out, "skip" also what can't be read.
[[nodiscard]] inline ReadOptions parse_read_options(const std::vector<std::string>& required_parts,
                                                    const std::optional<std::string>& bad_data, bool every) {
    const std::string rule = bad_data.value_or("keep");
    require(rule == "keep" || rule == "stop" || rule == "count" || rule == "skip",
            "bad_data is None, stop, count or skip");
    ReadOptions options{.required_parts = parts_of(required_parts), .every_position = every};
    if (rule == "stop") options.on_illegal = OnIllegal::kStop;
    if (rule == "count" || rule == "skip") options.on_illegal = OnIllegal::kSkip;
    options.skips_damage = rule == "skip";
    return options;
}

// What `open` gives for the file that is expected. Raises DataError.
template <class Open>
[[nodiscard]] std::shared_ptr<const EntryFile> opened_file(const FileName& name,
                                                           const std::optional<Identity>& identity, bool may_grow,
                                                           Open open) {
    std::optional<ExpectedFile> expected;
    if (identity) expected = expected_file(*identity, may_grow);
    OpenedFile opened;
    {
        const nanobind::gil_scoped_release release;
        opened = open(expected);
    }
    if (!opened.file) raise_data_error(name.given, opened.fault.reason, std::nullopt, opened.fault.changed);
    return opened.file;
}

}  // namespace sparsepool::chess
