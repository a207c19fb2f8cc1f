#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "chess/native/bind/arrays.h"
#include "chess/native/bind/bind.h"
#include "chess/native/bind/codecs.h"
#include "chess/native/bind/entry.h"
#include "chess/native/board/legality.h"
#include "chess/native/make_record.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::chess {
namespace {

using EntryTuple = std::tuple<std::string_view, std::string_view, std::int64_t, std::optional<std::int64_t>,
                              std::optional<std::int64_t>>;

// Throws std::invalid_argument for an entry that is illegal or lacks one of the required parts.
NewItemBytes<Record> pack_records(const std::vector<EntryTuple>& entries, bool checks_legality,
                                  const std::vector<std::string>& required) {
    const unsigned required_parts = parts_of(required);
    std::vector<Record> records;
    for (const auto& [fen, move, score, ply, result] : entries) {
        const Entry entry = make_entry(fen, move, score, ply, result);
        const Illegal illegal = checks_legality ? find_illegal(entry.position) : Illegal::kNone;
        if (illegal != Illegal::kNone) require_storable(describe(illegal), fen, move);
        const char* missing = describe_missing_part(entry.missing_parts & required_parts);
        if (missing != nullptr) require_storable(missing, fen, move);
        records.push_back(make_record(entry));
    }
    return to_item_bytes(std::move(records));
}

// Returns the FEN after a move. Throws std::invalid_argument for a wrong FEN or move.
std::string play_uci(std::string_view fen, std::string_view move) {
    Position position;
    Move parsed;
    std::string fault = parse_fen(fen, position);
    if (fault.empty()) fault = parse_uci(move, position, parsed);
    require(fault.empty(), fault);
    require(play(position, parsed) == MoveFault::kNone, "the move can't be played");
    char text[kMaxFen];
    return {text, write_fen(position, 1, text)};
}

}  // namespace

void bind_records(nb::module_& module) {
    module.def("pack_records", &pack_records, "entries"_a, "legal"_a = false, "needed"_a = std::vector<std::string>{},
               "Entries (FEN, move, score, ply, result) as records (chess/native/record.h), uint8 [entries, 32].\n"
               "Raises ValueError for what is no entry; with `legal` also for a position that no game can have, and\n"
               "for one that lacks a part of `needed`.");
    module.def("play", &play_uci, "fen"_a, "move"_a,
               "The FEN after a move (move number 1), as training data plays it. Raises ValueError.");
}

}  // namespace sparsepool::chess
