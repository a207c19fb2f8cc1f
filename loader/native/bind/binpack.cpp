#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <tuple>
#include <utility>

#include "bind/bind.h"
#include "bind/errors.h"
#include "chess/fen.h"
#include "chess/rules.h"
#include "formats/binpack/census.h"
#include "formats/binpack/chunk.h"
#include "formats/binpack/file.h"
#include "formats/binpack/printer.h"
#include "formats/binpack/writer.h"

namespace nb = nanobind;
using namespace nb::literals;
using sparsepool::BinpackFile;
using sparsepool::BinpackWriter;
using sparsepool::Census;
using sparsepool::ChunkPrinter;
using sparsepool::ChunkReader;
using sparsepool::Damage;

namespace {

constexpr std::size_t kBlock = 16384;  // records decoded at once: 512 KiB

using RecordBytes = nb::ndarray<nb::numpy, std::uint8_t, nb::shape<-1, 32>, nb::c_contig>;
using Counts = nb::ndarray<nb::numpy, const std::uint64_t, nb::ndim<1>, nb::c_contig>;

// Keeps the chunk's bytes while they are printed.
struct FilePrinter {
    BinpackFile::Bytes bytes;
    ChunkPrinter printer;
};

using Identity = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::int64_t>;

sparsepool::ExpectedFile expected_file(const Identity& identity, bool may_grow) {
    const auto [size, device, inode, modified] = identity;
    return {{size, device, inode, modified}, may_grow};
}

// `name`: str, bytes or path-like, any name the system knows.
std::string path_of(const nb::object& name) {
    PyObject* encoded = nullptr;
    if (PyUnicode_FSConverter(name.ptr(), &encoded) == 0) throw nb::python_error();
    return nb::steal<nb::bytes>(encoded).c_str();
}

std::shared_ptr<const BinpackFile> open_file(const nb::object& name, const std::optional<Identity>& identity,
                                             bool may_grow) {
    const std::string path = path_of(name);
    std::optional<sparsepool::ExpectedFile> expected;
    if (identity) expected = expected_file(*identity, may_grow);
    BinpackFile::Opened opened;
    {
        const nb::gil_scoped_release release;
        opened = BinpackFile::open(path, expected);
    }
    if (!opened.file) raise_data_error(name, opened.fault.reason, std::nullopt, opened.fault.changed);
    return opened.file;
}

std::string file_change(const nb::object& name, const Identity& identity, bool may_grow) {
    const std::string path = path_of(name);
    const nb::gil_scoped_release release;
    return sparsepool::change_since(expected_file(identity, may_grow), path);
}

BinpackFile::Bytes read_chunk(const BinpackFile& file, std::size_t chunk) {
    if (chunk >= file.chunks().size()) throw nb::index_error("the file has not so many chunks");
    BinpackFile::Bytes bytes;
    {
        const nb::gil_scoped_release release;
        bytes = file.read(chunk);
    }
    if (const auto& fault = bytes.fault()) {
        const auto length = static_cast<Py_ssize_t>(file.path().size());
        const auto name = nb::steal<nb::object>(PyUnicode_DecodeFSDefaultAndSize(file.path().data(), length));
        raise_data_error(name, fault->reason, file.chunks()[chunk].offset, fault->changed);
    }
    return bytes;
}

std::pair<RecordBytes, std::optional<Damage>> decode(const BinpackFile& file, std::size_t chunk) {
    const BinpackFile::Bytes bytes = read_chunk(file, chunk);
    auto records = std::make_unique<std::vector<sparsepool::chess::Record>>();
    std::optional<Damage> damage;
    {
        const nb::gil_scoped_release release;
        damage = sparsepool::decode_chunk(bytes.payload(), file.payload_offset(chunk), *records);
    }
    const std::size_t count = records->size();
    auto* data = reinterpret_cast<std::uint8_t*>(records->data());
    const nb::capsule owner(records.release(), [](void* vector) noexcept {
        delete static_cast<std::vector<sparsepool::chess::Record>*>(vector);
    });
    return {RecordBytes(data, {count, sizeof(sparsepool::chess::Record)}, owner), damage};
}

std::tuple<std::uint64_t, std::uint64_t, std::optional<Damage>> count(const BinpackFile& file, std::size_t chunk) {
    const BinpackFile::Bytes bytes = read_chunk(file, chunk);
    const nb::gil_scoped_release release;
    ChunkReader reader(bytes.payload(), file.payload_offset(chunk));
    std::vector<sparsepool::chess::Record> block(kBlock);
    std::uint64_t entries = 0;
    std::size_t read = 0;
    do {
        read = reader.read(block.data(), kBlock);
        entries += read;
    } while (read == kBlock);
    return {entries, reader.chains(), reader.damage()};
}

std::optional<Damage> add_chunk(Census& census, const BinpackFile& file, std::size_t chunk) {
    const BinpackFile::Bytes bytes = read_chunk(file, chunk);
    const nb::gil_scoped_release release;
    ChunkReader reader(bytes.payload(), file.payload_offset(chunk));
    std::vector<sparsepool::chess::Record> block(kBlock);
    std::size_t read = 0;
    do {
        read = reader.read(block.data(), kBlock);
        census.add({block.data(), read});
    } while (read == kBlock);
    census.chains += reader.chains();
    return reader.damage();
}

nb::bytes print_lines(FilePrinter& self, std::uint64_t limit) {
    std::string lines;
    {
        const nb::gil_scoped_release release;
        self.printer.print(lines, limit);
    }
    return nb::bytes(lines.data(), lines.size());
}

void add_entry(BinpackWriter& writer, std::string_view fen, std::string_view move, std::int64_t score, std::int64_t ply,
               std::int64_t result) {
    sparsepool::chess::Entry entry;
    std::string fault = sparsepool::chess::parse_fen(fen, entry.position);
    if (fault.empty()) fault = sparsepool::chess::parse_uci(move, entry.position, entry.move);
    if (fault.empty() && (score < -32768 || score > 32767)) fault = "score must be -32768 to 32767";
    if (fault.empty() && (ply < 0 || ply > 65535)) fault = "ply must be 0 to 65535";
    if (fault.empty() && (result < -1 || result > 1)) fault = "result must be -1, 0 or 1";
    if (fault.empty()) {
        entry.score = static_cast<std::int16_t>(score);
        entry.ply = static_cast<std::uint16_t>(ply);
        entry.result = static_cast<std::int8_t>(result);
        fault = writer.add(entry);
    }
    if (!fault.empty()) throw nb::value_error((fault + ": " + std::string(fen) + " " + std::string(move)).c_str());
}

std::optional<Damage> copy_chunk(BinpackWriter& writer, const BinpackFile& file, std::size_t chunk,
                                 std::uint32_t first_chain) {
    const BinpackFile::Bytes bytes = read_chunk(file, chunk);
    const nb::gil_scoped_release release;
    return sparsepool::copy_chunk(bytes.payload(), file.payload_offset(chunk), first_chain, writer);
}

nb::bytes take_bytes(BinpackWriter& writer) {
    const std::vector<std::uint8_t> bytes = writer.take();
    return nb::bytes(bytes.data(), bytes.size());
}

template <auto Member>
Counts counts(nb::handle_t<Census> self) {
    const auto& values = nb::cast<const Census&>(self).*Member;
    return Counts(values.data(), {values.size()}, self);
}

std::string play_uci(std::string_view fen, std::string_view move) {
    using namespace sparsepool::chess;
    Position position;
    Move parsed;
    std::string fault = parse_fen(fen, position);
    if (fault.empty()) fault = parse_uci(move, position, parsed);
    if (!fault.empty()) throw nb::value_error(fault.c_str());
    if (play(position, parsed) != MoveFault::kNone) throw nb::value_error("the move can't be played");
    char text[kMaxFen];
    return {text, write_fen(position, 1, text)};
}

void bind_file(nb::module_& module) {
    nb::class_<Damage>(module, "Damage", "Where data stops being usable, and why.")
        .def_ro("offset", &Damage::offset, "bytes from the start of the file: of a chunk header or a stem")
        .def_ro("entry_in_chain", &Damage::entry_in_chain, "first entry not delivered; the stem is 0")
        .def_ro("reason", &Damage::reason);
    nb::class_<BinpackFile>(module, "BinpackFile", "The chunks of a binpack file; usable by any number of threads.")
        .def(nb::new_(&open_file), "path"_a, "identity"_a = nb::none(), "may_grow"_a = false,
             "Raises DataError if the file can't be read at all. `identity`: (size, device, inode, modified) of "
             "loader.files; another file is a DataChangedError, here and when a chunk is read.")
        .def_prop_ro("size", &BinpackFile::size, "bytes")
        .def_prop_ro("num_chunks", [](const BinpackFile& file) { return file.chunks().size(); })
        .def_prop_ro("header_damage", &BinpackFile::header_damage, "the header at which the list of chunks ends early")
        .def_prop_ro("ends_in_a_chunk", &BinpackFile::ends_in_a_chunk, "that damage is only that the file ends too early")
        .def(
            "chunk",
            [](const BinpackFile& file, std::size_t chunk) {
                if (chunk >= file.chunks().size()) throw nb::index_error("the file has not so many chunks");
                return std::pair(file.chunks()[chunk].offset, file.chunks()[chunk].size);
            },
            "chunk"_a, "Offset of the header and bytes of the payload.")
        .def("decode", &decode, "chunk"_a, "All entries as records (record.h), uint8 [entries, 32], up to damage.")
        .def("count", &count, "chunk"_a, "Entries, chains, damage; every entry is decoded.");
    nb::class_<FilePrinter>(module, "ChunkPrinter", "The entries of one chunk as lines of text.")
        .def(nb::new_([](std::shared_ptr<const BinpackFile> file, std::size_t chunk) {
                 BinpackFile::Bytes bytes = read_chunk(*file, chunk);
                 const ChunkPrinter printer(bytes.payload(), file->payload_offset(chunk));
                 return FilePrinter{std::move(bytes), printer};
             }),
             "file"_a, "chunk"_a)
        .def("lines", &print_lines, "limit"_a,
             "Up to `limit` more lines: FEN, move, score, ply, result, tab separated; empty at the end or at damage.")
        .def_prop_ro("damage", [](const FilePrinter& self) { return self.printer.damage(); });
}

void bind_census(nb::module_& module) {
    nb::class_<Census>(module, "Census", "Counts over entries. Not for two threads at once.")
        .def(nb::init<>())
        .def("add_chunk", &add_chunk, "file"_a, "chunk"_a, "Counts a chunk's entries, up to damage.")
        .def_ro("entries", &Census::entries)
        .def_ro("chains", &Census::chains)
        .def_ro("white_to_move", &Census::white_to_move)
        .def_ro("in_check", &Census::in_check)
        .def_ro("captures", &Census::captures)
        .def_prop_ro("results", &counts<&Census::results>, "loss, draw, win")
        .def_prop_ro("move_types", &counts<&Census::move_types>, "normal, promotion, castling, en passant")
        .def_prop_ro("piece_counts", &counts<&Census::piece_counts>, "by number of pieces, 0 to 32")
        .def_prop_ro("scores", &counts<&Census::scores>, "by score + 32768")
        .def_prop_ro("plies", &counts<&Census::plies>, "by ply");
}

void bind_writer(nb::module_& module) {
    nb::class_<BinpackWriter>(module, "BinpackWriter", "Turns entries into the bytes of a binpack file.")
        .def(nb::init<>())
        .def("add", &add_entry, "fen"_a, "move"_a, "score"_a, "ply"_a, "result"_a,
             "Adds an entry. Raises ValueError if it can't be stored; then nothing has changed.")
        .def("copy_chunk", &copy_chunk, "file"_a, "chunk"_a, "first_chain"_a = 0,
             "Adds a chunk's entries, chain `first_chain` first and those before it last.")
        .def("finish", &BinpackWriter::finish, "Closes the last chunk.")
        .def("take", &take_bytes, "The bytes of all chunks closed since the last call.")
        .def_prop_ro("entries", &BinpackWriter::entries)
        .def_prop_ro("chains", &BinpackWriter::chains)
        .def_prop_ro("chunks", &BinpackWriter::chunks);
}

}  // namespace

void bind_binpack(nb::module_& module) {
    bind_file(module);
    bind_census(module);
    bind_writer(module);
    module.def("file_change", &file_change, "path"_a, "identity"_a, "may_grow"_a,
               "What tells the file of this name from the one of that identity, in words; empty if nothing does.");
    module.def("play", &play_uci, "fen"_a, "move"_a, "The FEN after a move (move number 1), as the format plays it.");
}
