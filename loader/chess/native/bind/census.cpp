#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "chess/native/bind/arrays.h"
#include "chess/native/bind/bind.h"
#include "chess/native/census/census_writer.h"
#include "chess/native/reader.h"
#include "stream/records.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::chess {
namespace {

using Counts = nb::ndarray<nb::numpy, const std::uint64_t, nb::ndim<1>, nb::c_contig>;
using Rows = nb::ndarray<nb::numpy, const std::uint64_t, nb::ndim<2>, nb::c_contig>;

template <auto kMember>
Counts counts(nb::handle_t<CensusWriter> self) {
    const auto& values = nb::cast<const CensusWriter&>(self).census().*kMember;
    return Counts(values.data(), {values.size()}, self);
}

template <auto kMember, std::size_t kColumns>
Rows rows(nb::handle_t<CensusWriter> self) {
    const auto& values = nb::cast<const CensusWriter&>(self).census().*kMember;
    return Rows(values.data(), {values.size() / kColumns, kColumns}, self);
}

template <auto kMember>
std::uint64_t number(const CensusWriter& self) {
    return self.census().*kMember;
}

void add_chunk(CensusWriter& self, const PositionReader& reader, std::size_t chunk) {
    if (chunk >= reader.num_chunks()) throw std::out_of_range("there is no such chunk");
    stream::RecordBuffer records(sizeof(Record));
    PositionReader::Reading reading{.chunk = chunk, .records = &records, .fault = {}, .skipped = {}};
    reader.read(std::span(&reading, 1), true, [](std::size_t) {});
    self.add(records.as<Record>());
}

}  // namespace

void bind_census(nb::module_& module) {
    nb::class_<CensusWriter, EntryWriter>(module, "Census", "Counts entries. Not for two threads at once.")
        .def(nb::init<bool, std::size_t>(), "keeps_records"_a = false, "most_keys"_a = KeySample::kMost,
             "most_keys: different positions that are held to estimate how many there are.")
        .def(
            "take_records", [](CensusWriter& self) { return to_item_bytes(self.take_records()); },
            "With keeps_records: those added before the last `finish` (record.h), uint8 [entries, 32].")
        .def("add_chunk", &add_chunk, "reader"_a, "chunk"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Counts the entries of a reader's chunk, up to damage.")
        .def(
            "add_census", [](CensusWriter& self, const CensusWriter& other) { self.add(other); }, "other"_a,
            nb::call_guard<nb::gil_scoped_release>(), "What the other one has counted.")
        .def_prop_ro("white_to_move", &number<&Census::white_to_move>)
        .def_prop_ro("in_check", &number<&Census::in_check>)
        .def_prop_ro("captures", &number<&Census::captures>, "moves onto an enemy piece: not en passant")
        .def_prop_ro("no_move", &number<&Census::no_move>)
        .def_prop_ro("move_types", &counts<&Census::move_types>, "normal, promotion, castling, en passant")
        .def_prop_ro("piece_counts", &counts<&Census::piece_counts>, "by number of pieces, 0 to 32")
        .def_prop_ro("phases", &counts<&Census::phases>, "by phase, 0 to 24")
        .def_prop_ro("materials", &counts<&Census::materials>, "by material of both sides")
        .def_prop_ro("own_kings", &counts<&Census::own_kings>, "by square, as the side to move sees the board")
        .def_prop_ro("opponent_kings", &counts<&Census::opponent_kings>, "by square, in the same view")
        .def_prop_ro("scores", &rows<&Census::scores, Census::kScores>,
                     "[4, 65536]: lost, drawn, won by the side to move, without a result; by score + 32768")
        .def_prop_ro("plies", &counts<&Census::plies>, "by ply")
        .def_prop_ro("score_plies", &rows<&Census::score_plies, Census::kPlySteps>,
                     "[160, 31]: by score in steps of 25 from -2000 on, by ply in steps of 8")
        .def_prop_ro("score_signs", &rows<&Census::score_signs, Census::kSigns>,
                     "[2, 3]: White, Black to move; against, level, with the mover's material where that is clear")
        .def_prop_ro("result_signs", &rows<&Census::result_signs, Census::kSigns>, "the same of results")
        .def_prop_ro("lengths", &counts<&Census::lengths>, "games and chains by their entries; 65535: that and more")
        .def_prop_ro(
            "one_in", [](const CensusWriter& self) { return self.keys().one_in(); },
            "of so many different positions one is in the sample")
        .def_prop_ro(
            "sampled", [](const CensusWriter& self) { return self.keys().occurrences(); }, "entries in the sample")
        .def_prop_ro(
            "different", [](const CensusWriter& self) { return self.keys().distinct(); },
            "different positions in the sample");
}

}  // namespace sparsepool::chess
