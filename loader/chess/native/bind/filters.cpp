#include "chess/native/filters/filters.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "chess/native/bind/arrays.h"
#include "chess/native/bind/bind.h"
#include "chess/native/filters/win_draw_loss.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::chess {
namespace {

using RecordBytes = nb::ndarray<const std::uint8_t, nb::shape<-1, sizeof(Record)>, nb::c_contig, nb::device::cpu>;
using Flags = NewArray<std::uint8_t>;  // 1 or 0 for each record

std::vector<Record> to_records(const RecordBytes& bytes) {
    std::vector<Record> records(bytes.shape(0));
    if (!records.empty()) std::memcpy(records.data(), bytes.data(), bytes.nbytes());
    return records;
}

// Evaluates a condition for each record.
Flags evaluate_condition(const where::Program& program, const RecordBytes& bytes) {
    std::vector<std::uint8_t> passes(bytes.shape(0));
    {
        const nb::gil_scoped_release release;
        std::vector<double> memory;
        program.run(to_records(bytes), memory, passes.data());
    }
    return to_array<std::uint8_t>(std::move(passes));
}

std::vector<std::string> used_names(const where::Program& program) {
    std::vector<std::string> used;
    for (const where::Instruction& instruction : program.instructions()) {
        if (instruction.name != nullptr) used.emplace_back(instruction.name->text);
    }
    return used;
}

std::vector<std::tuple<std::string, bool, std::string, std::string>> all_names() {
    std::vector<std::tuple<std::string, bool, std::string, std::string>> all;
    for (const where::Name& name : where::names()) {
        all.emplace_back(name.text, name.type == where::Type::kCondition, name.part, name.meaning);
    }
    return all;
}

// Filters all records of a chunk.
Flags choose(const Filter& filter, const RecordBytes& bytes, std::uint64_t chunk, std::uint64_t epoch) {
    std::vector<std::uint8_t> chosen(bytes.shape(0));
    {
        const nb::gil_scoped_release release;
        stream::RecordBuffer buffer(sizeof(Record));
        if (!chosen.empty()) std::memcpy(buffer.room<Record>(chosen.size()), bytes.data(), bytes.nbytes());
        buffer.grow(chosen.size());
        ChunkFilter chunk_filter(filter, epoch, chunk, true);
        chunk_filter.filter_block(buffer);
        chunk_filter.finish(buffer);
        for (const std::uint32_t entry : chunk_filter.kept_entries()) chosen[entry] = 1;
    }
    return to_array<std::uint8_t>(std::move(chosen));
}

void bind_settings(nb::module_& module) {
    nb::class_<MaterialModel>(module, "MaterialModel", "How probable results are, by score and material.")
        .def(nb::init<>())
        .def_rw("centre", &MaterialModel::centre)
        .def_rw("width", &MaterialModel::width)
        .def_rw("least_material", &MaterialModel::least_material)
        .def_rw("most_material", &MaterialModel::most_material)
        .def_rw("unit", &MaterialModel::unit)
        .def_rw("scale", &MaterialModel::scale)
        .def("probability", &MaterialModel::probability, "material"_a, "score"_a, "result"_a,
             "Of the result, given the score; both as the same side sees them.");
    nb::class_<FilterSettings>(module, "FilterSettings", "Which entries are left out; see loader.chess.filters.")
        .def(nb::init<>())
        .def_rw("skip_no_score", &FilterSettings::skip_no_score)
        .def_rw("skip_zero_placeholders", &FilterSettings::skip_zero_placeholders)
        .def_rw("skip_in_check", &FilterSettings::skip_in_check)
        .def_rw("skip_captures", &FilterSettings::skip_captures)
        .def_rw("skip_promotions", &FilterSettings::skip_promotions)
        .def_rw("skip_ply_up_to", &FilterSettings::skip_ply_up_to)
        .def_rw("random_skip", &FilterSettings::random_skip)
        .def_rw("win_draw_loss", &FilterSettings::win_draw_loss)
        .def_rw("piece_count", &FilterSettings::piece_count)
        .def_rw("piece_count_least", &FilterSettings::piece_count_least)
        .def_rw("piece_count_wanted", &FilterSettings::piece_count_wanted)
        .def_rw("where", &FilterSettings::where)
        .def_prop_rw(
            "chance_of_all", [](const FilterSettings& self) { return self.chances.of_all; },
            [](FilterSettings& self, double chance) { self.chances.of_all = chance; })
        .def_prop_rw(
            "chance_by_ply", [](const FilterSettings& self) { return self.chances.by_ply; },
            [](FilterSettings& self, std::vector<double> chances) { self.chances.by_ply = std::move(chances); })
        .def_prop_rw(
            "chance_by_piece_count", [](const FilterSettings& self) { return self.chances.by_piece_count; },
            [](FilterSettings& self, std::vector<double> chances) { self.chances.by_piece_count = std::move(chances); })
        .def_prop_rw(
            "chance_by_result", [](const FilterSettings& self) { return self.chances.by_result; },
            [](FilterSettings& self, const MaterialModel& model) { self.chances.by_result = model; });
}

}  // namespace

void bind_filters(nb::module_& module) {
    nb::class_<where::Program>(module, "Where",
                               "A condition of entries; loader/chess/filters/where.py makes it of a text.")
        .def(nb::new_([](const std::vector<where::Program::Word>& postfix) {
                 return std::make_shared<const where::Program>(postfix);
             }),
             "postfix"_a, "Numbers, names of where_names, and operations behind their operands. Raises ValueError.")
        .def_prop_ro("names", &used_names, "what it speaks of")
        .def("holds", &evaluate_condition, "records"_a, "Of records [entries, 32]: 1 or 0 for each, uint8.");
    module.def("where_names", &all_names,
               "What a condition may speak of: name, whether it is a condition, the part of an entry that it needs or\n"
               "an empty text, meaning.");
    bind_settings(module);
    nb::class_<Filter>(module, "Filter", "Leaves entries out. Usable by any number of threads.")
        .def(nb::init<const FilterSettings&, std::uint64_t>(), "settings"_a, "seed"_a)
        .def("choose", &choose, "records"_a, "chunk"_a, "epoch"_a = 0,
             "Of all records of a chunk [entries, 32]: 1 for those that are kept, else 0; uint8.");
    module.def("win_draw_loss_probability", &win_draw_loss_probability, "ply"_a, "score"_a, "result"_a,
               "Probability of the game's result, given score and ply: what the win_draw_loss filter keeps with.");
}

}  // namespace sparsepool::chess
