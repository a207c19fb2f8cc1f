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
#include <vector>

#include "chess/native/bind/bind.h"
#include "chess/native/bind/codecs.h"
#include "chess/native/bind/entry.h"
#include "chess/native/board/legality.h"
#include "chess/native/make_record.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::chess {
namespace {

using RecordBytes = nb::ndarray<nb::numpy, std::uint8_t, nb::shape<-1, sizeof(Record)>, nb::c_contig>;
using EntryTuple = std::tuple<std::string_view, std::string_view, std::int64_t, std::optional<std::int64_t>,
                              std::optional<std::int64_t>>;

RecordBytes pack_records(const std::vector<EntryTuple>& entries, bool legal,
                         const std::vector<std::string>& required_parts) {
    const unsigned parts = parts_of(required_parts);
    auto records = std::make_unique<std::vector<Record>>();
    for (const auto& [fen, move, score, ply, result] : entries) {
        const Entry entry = make_entry(fen, move, score, ply, result);
        const Illegal illegal = legal ? find_illegal(entry.position) : Illegal::kNone;
        if (illegal != Illegal::kNone) require_storable(describe(illegal), fen, move);
        if (const char* missing = describe_missing_part(entry.missing_parts & parts))
            require_storable(missing, fen, move);
        records->push_back(make_record(entry));
    }
    auto* data = reinterpret_cast<std::uint8_t*>(records->data());
    const std::size_t count = records->size();
    const nb::capsule owner(records.release(),
                            [](void* vector) noexcept { delete static_cast<std::vector<Record>*>(vector); });
    return RecordBytes(data, {count, sizeof(Record)}, owner);
}

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
