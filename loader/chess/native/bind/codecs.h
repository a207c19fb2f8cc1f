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

// `needed`: parts that a filter needs. `on_illegal`: as data.on_bad_data, or none to keep illegal positions.
[[nodiscard]] inline Demands demands_of(const std::vector<std::string>& needed,
                                        const std::optional<std::string>& on_illegal, bool every) {
    require(!on_illegal || *on_illegal == "stop" || *on_illegal == "skip", "on_illegal is None, stop or skip");
    const OnIllegal what = !on_illegal             ? OnIllegal::kKeep
                           : *on_illegal == "stop" ? OnIllegal::kStop
                                                   : OnIllegal::kLeaveOut;
    return {.needed = parts_of(needed), .on_illegal = what, .every = every};
}

// What, how many, and of the first its offset and its place in words.
using IllegalKind = std::tuple<std::string, std::uint64_t, std::optional<std::uint64_t>, std::string>;

// `fault_of(first, words)`: the place of the first of a kind, as a fault has it.
template <class FaultOf>
[[nodiscard]] std::vector<IllegalKind> illegal_kinds(const IllegalTally& tally, FaultOf fault_of) {
    std::vector<IllegalKind> kinds;
    for (std::size_t i = 0; i < tally.kinds.size(); ++i) {
        if (tally.kinds[i].count == 0) continue;
        const char* words = words_of(static_cast<Illegal>(i));
        const stream::SourceFault first = fault_of(tally.kinds[i], words);
        kinds.emplace_back(words, tally.kinds[i].count, first.offset, first.reason);
    }
    return kinds;
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
