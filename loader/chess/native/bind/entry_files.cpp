#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bind/faults.h"
#include "chess/native/bind/arrays.h"
#include "chess/native/bind/bind.h"
#include "chess/native/bind/codecs.h"
#include "chess/native/bind/entry.h"
#include "chess/native/files/chosen_writer.h"
#include "chess/native/files/printer.h"
#include "chess/native/files/reader.h"
#include "chess/native/files/unit_file.h"
#include "chess/native/formats/rescoring_writer.h"
#include "chess/native/relabelled_reader.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::chess {
namespace {

using Scores = nb::ndarray<const std::int16_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
constexpr std::size_t kBlock = 4096;  // records decoded at once

std::shared_ptr<const EntryFile> open_entries(const Codec& codec, const FileName& name,
                                              const std::optional<Identity>& identity, bool may_grow,
                                              const std::vector<std::string>& required_parts,
                                              std::optional<std::vector<std::uint64_t>> borders,
                                              const std::optional<std::string>& bad_data, bool every) {
    const ReadOptions options = parse_read_options(required_parts, bad_data, every);
    return opened_file(name, identity, may_grow, [&](const std::optional<ExpectedFile>& expected) {
        return codec.open(name.path, expected, options, std::move(borders));
    });
}

std::optional<std::vector<std::uint64_t>> borders_of(const EntryFile& file) {
    const auto* plain = dynamic_cast<const PlainUnitFile*>(&file);
    if (plain == nullptr || file.codec().scanned_units() == nullptr) return std::nullopt;
    return plain->borders();
}

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A chunk of a file and a walk through it.
class ChunkWalk {
  public:
    ChunkWalk(std::shared_ptr<const EntryFile> file, std::size_t chunk)
        : file_(std::move(file)), chunk_(chunk), piece_(file_->read(chunk)) {
        rewind();
    }
    ChunkWalk(const ChunkWalk&) = delete;

    [[nodiscard]] Walk& walk() { return *walk_; }
    [[nodiscard]] const Codec& codec() const { return file_->codec(); }
    void rewind() { walk_ = file_->walk(piece_, file_->options()); }
    [[nodiscard]] std::uint64_t units() const { return walk_->units(); }

    // Behind what has been read.
    [[nodiscard]] std::optional<stream::SourceFault> fault() const {
        const std::optional<Damage> damage = walk_->damage();
        return damage ? file_->fault_of(chunk_, piece_, *damage) : piece_.fault;
    }

    // What was left out, by kind.
    [[nodiscard]] std::vector<SkippedTuple> skipped() const {
        std::vector<SkippedTuple> kinds;
        for (const stream::SkippedData& kind : file_->skipped(chunk_, piece_, walk_->skipped()))
            kinds.push_back(sparsepool::as_tuple(kind));
        return kinds;
    }

    // Of an entry read last that a writer refuses.
    [[nodiscard]] stream::SourceFault fault_of(std::string refused) const {
        return file_->refusal(chunk_, piece_, *walk_, std::move(refused));
    }

  private:
    std::shared_ptr<const EntryFile> file_;
    std::size_t chunk_;
    Piece piece_;
    std::unique_ptr<Walk> walk_;
};

nb::object as_tuple(const std::optional<stream::SourceFault>& fault) {
    if (!fault) return nb::none();
    constexpr const char* kKinds[] = {"damaged", "changed", "unreadable"};
    return nb::make_tuple(name_of(fault->file), fault->reason, fault->offset,
                          kKinds[static_cast<std::size_t>(fault->kind)]);
}

nb::bytes print_lines(ChunkWalk& self, std::uint64_t limit) {
    std::string lines;
    {
        const nb::gil_scoped_release release;
        char line[kMaxLine];
        for (; limit != 0; --limit) {
            const Entry* entry = self.walk().next();
            if (entry == nullptr) break;
            const char* end = write_line(*entry, self.codec().move_number(*entry), line);
            lines.append(line, static_cast<std::size_t>(end - line));
        }
    }
    return nb::bytes(lines.data(), lines.size());
}

std::uint64_t count(ChunkWalk& self) {
    const nb::gil_scoped_release release;
    return self.walk().count();
}

// Reads up to `limit` more records of a walk, block by block.
NewItemBytes<Record> read_records(Walk& walk, std::uint64_t limit) {
    std::vector<Record> records;
    {
        const nb::gil_scoped_release release;
        std::size_t num_read = kBlock;
        while (num_read == kBlock && records.size() < limit) {
            const std::size_t old_size = records.size();
            const std::size_t capacity = std::min<std::uint64_t>(kBlock, limit - old_size);
            records.resize(old_size + capacity);
            num_read = walk.read(records.data() + old_size, capacity, true);
            records.resize(old_size + num_read);
        }
    }
    return to_item_bytes(std::move(records));
}

NewItemBytes<Record> decode_units(const Codec& codec, const Bytes& units) {
    const std::string_view bytes(reinterpret_cast<const char*>(units.data()), units.size());
    return read_records(*codec.walk(bytes, {}), std::numeric_limits<std::uint64_t>::max());
}

// Adds the remaining entries of a chunk to a writer. Returns the fault at which the walk or the writer has stopped, or
// None.
nb::object copy_to(ChunkWalk& self, EntryWriter& writer, double scale) {
    std::string problem;
    {
        const nb::gil_scoped_release release;
        std::uint64_t units_begun = 0;
        const auto begin_units = [&] {  // also those of games without moves, but not those that were skipped
            const std::uint64_t good_units = self.units() - self.walk().skipped().extents.size();
            for (; units_begun < good_units; ++units_begun) writer.begin_unit();
        };
        const Entry* entry = self.walk().next();
        while (entry != nullptr && problem.empty()) {
            begin_units();
            Entry scaled = *entry;
            if (scale != 1.0) scaled.score = scaled_score(entry->score, scale);
            problem = writer.add(scaled);
            if (problem.empty()) entry = self.walk().next();
        }
        if (problem.empty()) begin_units();
    }
    return problem.empty() ? as_tuple(self.fault()) : as_tuple(self.fault_of(std::move(problem)));
}

void add_entry(EntryWriter& writer, std::string_view fen, std::string_view move, std::int64_t score,
               std::optional<std::int64_t> ply, std::optional<std::int64_t> result) {
    require_storable(writer.add(make_entry(fen, move, score, ply, result)), fen, move);
}

nb::bytes take_bytes(EntryWriter& writer) {
    const std::vector<std::uint8_t> bytes = writer.take();
    return nb::bytes(bytes.data(), bytes.size());
}

void check_chunk(const EntryFile& file, std::size_t chunk) {
    if (chunk >= file.num_pieces()) throw nb::index_error("the file has not so many chunks");
}

std::string_view view(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

std::shared_ptr<const EntryFile> hold_entries(const Codec& codec, const FileName& name, const nb::bytes& bytes,
                                              std::uint64_t begin, std::uint64_t first_unit,
                                              const std::vector<std::string>& required_parts,
                                              const std::optional<std::string>& bad_data, bool every,
                                              const nb::bytes& header) {
    return codec.open_in_memory(name.path, parse_read_options(required_parts, bad_data, every),
                                std::string(view(bytes)), begin, first_unit, std::string(view(header)));
}

}  // namespace

void bind_entry_files(nb::module_& module) {
    nb::class_<EntryWriter>(module, "EntryWriter", "Turns entries into the bytes of a file of one format.")
        .def("add", &add_entry, "fen"_a, "move"_a, "score"_a, "ply"_a.none(), "result"_a.none(),
             "Adds an entry; ply or result None: not known. Raises ValueError if it can't be stored; then nothing has "
             "changed.")
        .def("finish", &EntryWriter::finish, "Ends what is begun: a game, a chunk.")
        .def("take", &take_bytes, "The bytes that are done since the last call.")
        .def_prop_ro("entries", &EntryWriter::entries)
        .def_prop_ro("changes", &EntryWriter::changes,
                     "what was written otherwise than the entries have it, in words, and of how many of them");
    nb::class_<RescoringWriter, EntryWriter>(module, "RescoringWriter",
                                             "Hands entries on to another writer, with scores of a list's.")
        .def(
            "__init__",
            [](RescoringWriter* self, EntryWriter& writer, const Scores& scores) {
                new (self) RescoringWriter(writer, {scores.data(), scores.size()});
            },
            "writer"_a, "scores"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(),
            "scores: int16, of the side to move; one for each entry that is added.")
        .def_prop_ro("used", &RescoringWriter::used, "scores handed on");
    nb::class_<ChosenWriter, EntryWriter>(module, "ChosenWriter", "Hands entries on to a writer by their numbers.")
        .def(
            "__init__",
            [](ChosenWriter* self, EntryWriter& writer, const Bytes& chosen, bool marks) {
                new (self) ChosenWriter(writer, {chosen.data(), chosen.data() + chosen.size()}, marks);
            },
            "writer"_a, "chosen"_a, "marks"_a = false, nb::keep_alive<1, 2>(),
            "Entry i if chosen[i] is not 0; uint8. With `marks` the others, too, with the score 32002.");
    nb::class_<Codec>(module, "Codec", "A format of positions, both ways.")
        .def("make_writer", &Codec::make_writer)
        .def(
            "header_in",
            [](const Codec& codec, const nb::bytes& beginning) {
                const std::string_view header = codec.header_in(view(beginning));
                return nb::bytes(header.data(), header.size());
            },
            "beginning"_a, "The line at the beginning of a file that says what the others mean; empty without one.")
        .def(
            "begins_a_file", [](const Codec& codec, const nb::bytes& head) { return codec.begins_a_file(view(head)); },
            "head"_a, "Whether these bytes, which may end anywhere, begin a file of the format.")
        .def(
            "first_piece",
            [](const Codec& codec, const nb::bytes& bytes, std::uint64_t begin, bool last) {
                return codec.first_piece(view(bytes), begin, last);
            },
            "bytes"_a, "begin"_a, "last"_a,
            "Bytes of the chunk that these begin with, cut as a file's are, or more than are there; 0 if it takes more "
            "to know. last: none follow.")
        .def_prop_ro("enough", &Codec::enough, "bytes by which that is known of most chunks")
        .def_prop_ro("has_games", &Codec::has_games)
        .def_prop_ro(
            "is_sought", [](const Codec& codec) { return codec.scanned_units() != nullptr; },
            "the ends of units have to be looked for")
        .def_prop_ro("keeps_games", &Codec::keeps_games, "a unit is what is left of a game, not a single position")
        .def_prop_ro("unit", [](const Codec& codec) { return codec.units().word(); }, "record, line, game or chain");
    nb::class_<EntryFile>(module, "EntryFile", "The chunks of a file of positions; usable by any number of threads.")
        .def_prop_ro("size", &EntryFile::size, "bytes")
        .def_prop_ro("change", &EntryFile::change,
                     "what is different now from the file that was opened; empty: nothing")
        .def_prop_ro("num_chunks", &EntryFile::num_pieces)
        .def_prop_ro("is_packed", &EntryFile::is_packed, "compressed: decoded in the order of the file")
        .def_prop_ro(
            "useless", [](const EntryFile& file) { return as_tuple(file.find_unusable_reason()); },
            "a fault, as ChunkWalk has it, if there is nothing good before it; which is known without reading on")
        .def_prop_ro("whole_size", &EntryFile::whole_size, "bytes up to the end of the last whole record, line or game")
        .def_prop_ro(
            "borders", &borders_of,
            "of a plain file whose units' ends are looked for: where chunks begin, and where the last one ends")
        .def(
            "offset",
            [](const EntryFile& file, std::size_t chunk) {
                check_chunk(file, chunk);
                return file.offset(chunk);
            },
            "chunk"_a, "Bytes of the file before the chunk, about.");
    module.def("open_entries", &open_entries, "codec"_a, "path"_a, "identity"_a = nb::none(), "may_grow"_a = false,
               "needed"_a = std::vector<std::string>{}, "borders"_a = nb::none(), "bad_data"_a = nb::none(),
               "every"_a = false,
               "A file of positions. Raises DataError if it can't be read at all. `identity`: (size, device, inode, "
               "modified)\n"
               "of loader.files.identity; another file is a DataError, here and when a chunk is read.\n"
               "needed: an entry that lacks one of these parts is damage. borders: as EntryFile.borders gave them.\n"
               "bad_data: None keeps positions that no game can have, \"stop\" takes them for damage, \"count\" leaves "
               "them out,\n"
               "\"skip\" also what can't be read. With `every` each position is judged, else of a game the first.");
    module.def("hold_entries", &hold_entries, "codec"_a, "name"_a, "bytes"_a, "begin"_a, "first_unit"_a,
               "needed"_a = std::vector<std::string>{}, "bad_data"_a = nb::none(), "every"_a = false,
               "header"_a = nb::bytes("", 0),
               "A piece of what comes out of a pipe, as a file of one chunk; begin, first_unit: bytes and records, "
               "lines or games before it; header: what the pipe has begun with (header_in).");
    module.def(
        "count_units", [](const Codec& codec, const nb::bytes& bytes) { return codec.units().count(view(bytes)); },
        "codec"_a, "bytes"_a, "Records, lines or games of a piece.");
    nb::class_<ChunkWalk>(module, "ChunkWalk", "The entries of a chunk. Not for two threads at once.")
        .def(nb::new_([](std::shared_ptr<const EntryFile> file, std::size_t chunk) {
                 check_chunk(*file, chunk);
                 const nb::gil_scoped_release release;
                 return std::make_shared<ChunkWalk>(std::move(file), chunk);
             }),
             "file"_a, "chunk"_a)
        .def("lines", &print_lines, "limit"_a,
             "Up to `limit` more lines: FEN, move, score, ply, result, tab separated; empty at the end or at damage.")
        .def(
            "records", [](ChunkWalk& self, std::uint64_t limit) { return read_records(self.walk(), limit); }, "limit"_a,
            "Up to `limit` more entries as records (record.h), uint8 [entries, 32].")
        .def("count", &count, "How many more there are, up to damage.")
        .def("rewind", &ChunkWalk::rewind, "Begins again, without reading the file.")
        .def("copy_to", &copy_to, "writer"_a, "scale"_a = 1.0,
             "Adds all more entries to the writer, their scores times `scale`. The fault, if any, or None.")
        .def_prop_ro("left_out", &ChunkWalk::skipped, "so far, by kind, as loader.stream.skipped_data.SkippedData")
        .def_prop_ro(
            "unscored", [](ChunkWalk& self) { return self.walk().unscored(); },
            "entries without a score so far: (reason, how many), of formats that know a reason")
        .def_prop_ro("units", &ChunkWalk::units, "records, lines or games begun")
        .def_prop_ro(
            "fault", [](const ChunkWalk& self) { return as_tuple(self.fault()); },
            "behind what was read: (file, reason, offset or None, \"damaged\", \"changed\" or \"unreadable\")");
    module.def("decode_units", &decode_units, "codec"_a, "bytes"_a,
               "The entries of whole records or lines as records (record.h), uint8 [entries, 32], up to damage.");
    nb::class_<FileReader, PositionReader>(module, "FileReader", "Files of one format for the stream.")
        .def(nb::init<std::vector<std::shared_ptr<const EntryFile>>>(), "files"_a);
}

}  // namespace sparsepool::chess
