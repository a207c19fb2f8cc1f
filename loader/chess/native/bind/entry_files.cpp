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

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chess/native/bind/bind.h"
#include "chess/native/bind/codecs.h"
#include "chess/native/bind/entry.h"
#include "chess/native/census.h"
#include "chess/native/files/printer.h"
#include "chess/native/files/reader.h"
#include "chess/native/files/unit_file.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::chess {
namespace {

using RecordBytes = nb::ndarray<nb::numpy, std::uint8_t, nb::shape<-1, sizeof(Record)>, nb::c_contig>;
constexpr std::size_t kBlock = 4096;  // records decoded at once

std::shared_ptr<const EntryFile> open_entries(const Codec& codec, const FileName& name,
                                              const std::optional<Identity>& identity, bool may_grow, bool needs_ply,
                                              std::optional<std::vector<std::uint64_t>> borders) {
    return opened_file(name, identity, may_grow, [&](const std::optional<ExpectedFile>& expected) {
        return open_unit_file(name.path, expected, codec, needs_ply, std::move(borders));
    });
}

std::optional<std::vector<std::uint64_t>> borders_of(const EntryFile& file) {
    const auto* plain = dynamic_cast<const PlainUnitFile*>(&file);
    if (plain == nullptr || file.codec().games() == nullptr) return std::nullopt;
    return plain->borders();
}

// A chunk of a file and a walk through it.
class ChunkWalk {
  public:
    ChunkWalk(std::shared_ptr<const EntryFile> file, std::size_t chunk)
        : file_(std::move(file)), chunk_(chunk), piece_(file_->read(chunk)), walk_(file_->walk(piece_)) {}
    ChunkWalk(const ChunkWalk&) = delete;

    [[nodiscard]] Walk& walk() { return walk_; }
    [[nodiscard]] std::uint64_t units() const { return walk_.units(); }

    // Behind what has been read.
    [[nodiscard]] std::optional<stream::SourceFault> fault() const {
        const std::optional<Damage> damage = walk_.damage();
        return damage ? file_->fault_of(chunk_, piece_, *damage) : piece_.fault;
    }

    // Of an entry read last that a writer refuses.
    [[nodiscard]] stream::SourceFault fault_of(std::string refused) const {
        return {file_->path(), file_->offset(chunk_),
                std::string(file_->codec().units().word()) + " " + std::to_string(piece_.first_unit + walk_.units()) +
                    (piece_.first_unit == 0 && chunk_ != 0 ? " from here on" : "") + ": " + std::move(refused)};
    }

  private:
    std::shared_ptr<const EntryFile> file_;
    std::size_t chunk_;
    Piece piece_;
    Walk walk_;
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
            const char* end = write_line(*entry, entry->ply / 2U + 1, line);
            lines.append(line, static_cast<std::size_t>(end - line));
        }
    }
    return nb::bytes(lines.data(), lines.size());
}

std::uint64_t count(ChunkWalk& self, Census* census) {
    const nb::gil_scoped_release release;
    std::vector<Record> block(kBlock);
    std::uint64_t entries = 0;
    std::size_t read = 0;
    do {
        read = self.walk().read(block.data(), kBlock, census != nullptr);
        if (census != nullptr) census->add({block.data(), read});
        entries += read;
    } while (read == kBlock);
    return entries;
}

RecordBytes read_records(ChunkWalk& self, std::uint64_t limit) {
    auto records = std::make_unique<std::vector<Record>>();
    {
        const nb::gil_scoped_release release;
        std::size_t read = 0;
        do {
            const std::size_t before = records->size();
            const std::size_t wanted = std::min<std::uint64_t>(kBlock, limit - before);
            records->resize(before + wanted);
            read = self.walk().read(records->data() + before, wanted, true);
            records->resize(before + read);
        } while (read == kBlock && records->size() < limit);
    }
    auto* data = reinterpret_cast<std::uint8_t*>(records->data());
    const std::size_t size = records->size();
    const nb::capsule owner(records.release(),
                            [](void* vector) noexcept { delete static_cast<std::vector<Record>*>(vector); });
    return RecordBytes(data, {size, sizeof(Record)}, owner);
}

nb::object copy_to(ChunkWalk& self, EntryWriter& writer) {
    std::string wrong;
    {
        const nb::gil_scoped_release release;
        for (const Entry* entry = self.walk().next(); entry != nullptr; entry = self.walk().next()) {
            wrong = writer.add(*entry);
            if (!wrong.empty()) break;
        }
    }
    return wrong.empty() ? as_tuple(self.fault()) : as_tuple(self.fault_of(std::move(wrong)));
}

// Whether the bytes begin with a good entry, and are good as far as they go.
bool begins_a_file(const Codec& codec, const nb::bytes& head) {
    Walk walk(codec.kernels(), {reinterpret_cast<const std::uint8_t*>(head.data()), head.size()}, false);
    std::uint64_t entries = 0;
    while (walk.next() != nullptr) ++entries;
    const std::optional<Damage> damage = walk.damage();
    return entries != 0 && (!damage || damage->cut);
}

void add_entry(EntryWriter& writer, std::string_view fen, std::string_view move, std::int64_t score, std::int64_t ply,
               std::int64_t result) {
    require_storable(writer.add(make_entry(fen, move, score, ply, result)), fen, move);
}

nb::bytes take_bytes(EntryWriter& writer) {
    const std::vector<std::uint8_t> bytes = writer.take();
    return nb::bytes(bytes.data(), bytes.size());
}

void check_chunk(const EntryFile& file, std::size_t chunk) {
    if (chunk >= file.num_pieces()) throw nb::index_error("the file has not so many chunks");
}

}  // namespace

void bind_entry_files(nb::module_& module) {
    nb::class_<EntryWriter>(module, "EntryWriter", "Turns entries into the bytes of a file of one format.")
        .def("add", &add_entry, "fen"_a, "move"_a, "score"_a, "ply"_a, "result"_a,
             "Adds an entry. Raises ValueError if it can't be stored; then nothing has changed.")
        .def("finish", &EntryWriter::finish, "Ends what is begun: a game, a chunk.")
        .def("take", &take_bytes, "The bytes that are done since the last call.")
        .def_prop_ro("entries", &EntryWriter::entries);
    nb::class_<Codec>(module, "Codec", "A format of positions, both ways.")
        .def("make_writer", &Codec::make_writer)
        .def("begins_a_file", &begins_a_file, "head"_a,
             "Whether these bytes, which may end anywhere, begin with a good entry and have no damage.")
        .def_prop_ro("has_games", [](const Codec& codec) { return codec.games() != nullptr; })
        .def_prop_ro("unit", [](const Codec& codec) { return codec.units().word(); }, "record, line or game");
    nb::class_<EntryFile>(module, "EntryFile", "The chunks of a file of positions; usable by any number of threads.")
        .def_prop_ro("size", &EntryFile::size, "bytes")
        .def_prop_ro("num_chunks", &EntryFile::num_pieces)
        .def_prop_ro("is_packed", &EntryFile::is_packed, "compressed: decoded in the order of the file")
        .def_prop_ro("whole_size", &EntryFile::whole_size, "bytes up to the end of the last whole record, line or game")
        .def_prop_ro("borders", &borders_of,
                     "of a plain file of games: where chunks begin, and where the last one ends")
        .def(
            "offset",
            [](const EntryFile& file, std::size_t chunk) {
                check_chunk(file, chunk);
                return file.offset(chunk);
            },
            "chunk"_a, "Bytes of the file before the chunk, about.");
    module.def(
        "open_entries", &open_entries, "codec"_a, "path"_a, "identity"_a = nb::none(), "may_grow"_a = false,
        "needs_ply"_a = false, "borders"_a = nb::none(),
        "A file of records or games. Raises DataError if it can't be read at all. `identity`: as BinpackFile's.\n"
        "needs_ply: an entry whose ply is unknown is damage. borders: as EntryFile.borders gave them.");
    nb::class_<ChunkWalk>(module, "ChunkWalk", "The entries of a chunk. Not for two threads at once.")
        .def(nb::new_([](std::shared_ptr<const EntryFile> file, std::size_t chunk) {
                 check_chunk(*file, chunk);
                 const nb::gil_scoped_release release;
                 return std::make_shared<ChunkWalk>(std::move(file), chunk);
             }),
             "file"_a, "chunk"_a)
        .def("lines", &print_lines, "limit"_a,
             "Up to `limit` more lines: FEN, move, score, ply, result, tab separated; empty at the end or at damage.")
        .def("records", &read_records, "limit"_a,
             "Up to `limit` more entries as records (record.h), uint8 [entries, 32].")
        .def(
            "count", [](ChunkWalk& self) { return count(self, nullptr); }, "How many more there are, up to damage.")
        .def(
            "take_census", [](ChunkWalk& self, Census& census) { return count(self, &census); }, "census"_a,
            "Counts them; how many.")
        .def("copy_to", &copy_to, "writer"_a, "Adds all more entries to the writer. The fault, if any, or None.")
        .def_prop_ro("units", &ChunkWalk::units, "records, lines or games begun")
        .def_prop_ro(
            "fault", [](const ChunkWalk& self) { return as_tuple(self.fault()); },
            "behind what was read: (file, reason, offset or None, \"damaged\", \"changed\" or \"unreadable\")");
    nb::class_<FileReader, PositionReader>(module, "FileReader", "Files of one format for the stream.")
        .def(nb::init<std::vector<std::shared_ptr<const EntryFile>>>(), "files"_a);
}

}  // namespace sparsepool::chess
