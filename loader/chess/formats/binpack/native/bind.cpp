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

#include "bind/errors.h"
#include "bind/files.h"
#include "chess/formats/binpack/native/file/chains.h"
#include "chess/formats/binpack/native/file/chunk.h"
#include "chess/formats/binpack/native/file/file.h"
#include "chess/formats/binpack/native/file/printer.h"
#include "chess/formats/binpack/native/file/reader.h"
#include "chess/formats/binpack/native/file/writer.h"
#include "chess/native/bind/codecs.h"
#include "chess/native/bind/entry.h"
#include "chess/native/bind/unit_block.h"

namespace nb = nanobind;
using namespace nb::literals;
namespace sparsepool::binpack {
namespace {

constexpr std::size_t kBlock = 16384;  // records decoded at once: 512 KiB

using RecordBytes = nb::ndarray<nb::numpy, std::uint8_t, nb::shape<-1, 32>, nb::c_contig>;

// Keeps the chunk's bytes while they are printed.
struct FilePrinter {
    File::Bytes bytes;
    ChunkPrinter printer;
};

std::shared_ptr<const File> open_file(const FileName& name, const std::optional<Identity>& identity, bool may_grow,
                                      const std::optional<std::string>& on_illegal, bool every) {
    const chess::Demands demands = chess::demands_of(false, on_illegal, every);
    std::optional<ExpectedFile> expected;
    if (identity) expected = expected_file(*identity, may_grow);
    File::Opened opened;
    {
        const nb::gil_scoped_release release;
        opened = File::open(name.path, expected, demands);
    }
    if (!opened.file) raise_data_error(name.given, opened.fault.reason, std::nullopt, opened.fault.changed);
    return opened.file;
}

File::Bytes read_chunk(const File& file, std::size_t chunk) {
    if (chunk >= file.chunks().size()) throw nb::index_error("the file has not so many chunks");
    File::Bytes bytes;
    {
        const nb::gil_scoped_release release;
        bytes = file.read(chunk);
    }
    if (const auto& fault = bytes.fault()) {
        raise_data_error(name_of(file.path()), fault->reason, file.chunks()[chunk].offset, fault->changed);
    }
    return bytes;
}

std::pair<RecordBytes, std::optional<Damage>> decode(const File& file, std::size_t chunk) {
    const File::Bytes bytes = read_chunk(file, chunk);
    auto records = std::make_unique<std::vector<chess::Record>>();
    std::optional<Damage> damage;
    {
        const nb::gil_scoped_release release;
        damage = decode_chunk(bytes.payload(), file.payload_offset(chunk), *records);
    }
    const std::size_t count = records->size();
    auto* data = reinterpret_cast<std::uint8_t*>(records->data());
    const nb::capsule owner(records.release(),
                            [](void* vector) noexcept { delete static_cast<std::vector<chess::Record>*>(vector); });
    return {RecordBytes(data, {count, sizeof(chess::Record)}, owner), damage};
}

std::tuple<std::uint64_t, std::uint64_t, std::optional<Damage>> count(const File& file, std::size_t chunk) {
    const File::Bytes bytes = read_chunk(file, chunk);
    const nb::gil_scoped_release release;
    ChunkReader reader(bytes.payload(), file.payload_offset(chunk));
    std::vector<chess::Record> block(kBlock);
    std::uint64_t entries = 0;
    std::size_t read = 0;
    do {
        read = reader.read(block.data(), kBlock);
        entries += read;
    } while (read == kBlock);
    return {entries, reader.chains(), reader.damage()};
}

std::tuple<std::uint64_t, std::vector<chess::IllegalKind>, std::optional<Damage>> judge(const File& file,
                                                                                        std::size_t chunk) {
    const File::Bytes bytes = read_chunk(file, chunk);
    const nb::gil_scoped_release release;
    const Judged judged = judge_chunk(bytes.payload(), file.payload_offset(chunk));
    const auto illegal =
        chess::illegal_kinds(judged.illegal, [&](const chess::IllegalTally::Kind& kind, const char* words) {
            const std::string entry = " (entry " + std::to_string(kind.unit) + " of its chain)";
            return stream::SourceFault{file.path(), file.payload_offset(chunk) + kind.offset, words + entry};
        });
    return {judged.entries, illegal, judged.damage};
}

nb::object read_units(const File& file, std::size_t chunk) {
    const File::Bytes bytes = read_chunk(file, chunk);
    Chains chains;
    {
        const nb::gil_scoped_release release;
        chains = cut_chains(bytes.payload(), file.payload_offset(chunk), file.demands());
        if (chains.damage) {
            chains.block.fault = stream::SourceFault{file.path(), chains.damage->offset, chains.damage->reason};
        }
    }
    return chess::unit_tuple(std::move(chains.block));
}

nb::object cut_payload(const nb::bytes& payload) {
    Chains chains;
    {
        const nb::gil_scoped_release release;
        chains = cut_chains({reinterpret_cast<const std::uint8_t*>(payload.data()), payload.size()}, 0);
    }
    return chess::unit_tuple(std::move(chains.block));
}

chess::RecordBytes first_of_chains(const chess::UnitBytes& chains, const chess::UnitPlaces& begins) {
    return chess::first_records(chains, begins, kStemBytes,
                                [&](auto places) { return first_entries({chains.data(), chains.size()}, places); });
}

nb::bytes print_lines(FilePrinter& self, std::uint64_t limit) {
    std::string lines;
    {
        const nb::gil_scoped_release release;
        self.printer.print(lines, limit);
    }
    return nb::bytes(lines.data(), lines.size());
}

std::optional<Damage> copy_chunk(chess::EntryWriter& writer, const File& file, std::size_t chunk,
                                 std::uint32_t first_chain) {
    const File::Bytes bytes = read_chunk(file, chunk);
    const nb::gil_scoped_release release;
    chess::IllegalTally left_out;
    return binpack::copy_chunk(bytes.payload(), file.payload_offset(chunk), first_chain, writer, file.demands(),
                               &left_out);
}

void bind_file(nb::module_& module) {
    nb::class_<Damage>(module, "Damage", "Where data stops being usable, and why.")
        .def_ro("offset", &Damage::offset, "bytes from the start of the file: of a chunk header or a stem")
        .def_ro("entry_in_chain", &Damage::entry_in_chain, "first entry not delivered; the stem is 0")
        .def_ro("reason", &Damage::reason);
    nb::class_<File>(module, "BinpackFile", "The chunks of a binpack file; usable by any number of threads.")
        .def(nb::new_(&open_file), "path"_a, "identity"_a = nb::none(), "may_grow"_a = false,
             "on_illegal"_a = nb::none(), "every"_a = false,
             "Raises DataError if the file can't be read at all. `identity`: (size, device, inode, modified) of "
             "loader.files.identity; another file is a DataChangedError, here and when a chunk is read. on_illegal, "
             "every: as "
             "open_entries has them; they count where entries are copied, cut or streamed.")
        .def_static(
            "hold",
            [](const FileName& name, const nb::bytes& bytes, std::uint64_t begin,
               const std::optional<std::string>& on_illegal, bool every) {
                return File::hold(name.path, {bytes.c_str(), bytes.size()}, begin,
                                  chess::demands_of(false, on_illegal, every));
            },
            "name"_a, "bytes"_a, "begin"_a, "on_illegal"_a = nb::none(), "every"_a = false,
            "A chunk that has come out of a pipe, or what came instead of one; begin: bytes before it.")
        .def_prop_ro("size", &File::size, "bytes")
        .def_prop_ro("change", &File::change, "what is different now from the file that was opened; empty: nothing")
        .def_prop_ro("num_chunks", [](const File& file) { return file.chunks().size(); })
        .def_prop_ro("header_damage", &File::header_damage, "the header at which the list of chunks ends early")
        .def_prop_ro("ends_in_a_chunk", &File::ends_in_a_chunk, "that damage is only that the file ends too early")
        .def(
            "chunk",
            [](const File& file, std::size_t chunk) {
                if (chunk >= file.chunks().size()) throw nb::index_error("the file has not so many chunks");
                return std::pair(file.chunks()[chunk].offset, file.chunks()[chunk].size);
            },
            "chunk"_a, "Offset of the header and bytes of the payload.")
        .def("decode", &decode, "chunk"_a, "All entries as records (record.h), uint8 [entries, 32], up to damage.")
        .def("count", &count, "chunk"_a, "Entries, chains, damage; every entry is decoded.")
        .def("judge", &judge, "chunk"_a,
             "Legal entries; others by kind: (what, how many, offset of the first, its place in\n"
             "words); damage.")
        .def("read_units", &read_units, "chunk"_a, "The chains of a chunk: bytes, ends, entries, fault.")
        .def(
            "copy_to",
            [](const File& file, std::size_t chunk, chess::EntryWriter& writer) {
                return copy_chunk(writer, file, chunk, 0);
            },
            "chunk"_a, "writer"_a, "Adds a chunk's entries to any writer; damage, or the entry that it refuses.");
    module.def(
        "chunk_bytes",
        [](const nb::bytes& header) {
            return chunk_bytes({reinterpret_cast<const std::uint8_t*>(header.data()), header.size()});
        },
        "header"_a, "Bytes of the chunk with this header (8 bytes), the header included; 0 if it is no chunk's.");
    module.def("cut_chains", &cut_payload, "payload"_a, "The chains of a chunk's payload: bytes, ends, entries, None.");
    module.def("first_of_chains", &first_of_chains, "bytes"_a, "begins"_a,
               "The first entry of each chain as a record (record.h), uint8 [chains, 32].");
    nb::class_<FilePrinter>(module, "ChunkPrinter", "The entries of one chunk as lines of text.")
        .def(nb::new_([](std::shared_ptr<const File> file, std::size_t chunk) {
                 File::Bytes bytes = read_chunk(*file, chunk);
                 const ChunkPrinter printer(bytes.payload(), file->payload_offset(chunk));
                 return FilePrinter{std::move(bytes), printer};
             }),
             "file"_a, "chunk"_a)
        .def("lines", &print_lines, "limit"_a,
             "Up to `limit` more lines: FEN, move, score, ply, result, tab separated; empty at the end or at damage.")
        .def_prop_ro("damage", [](const FilePrinter& self) { return self.printer.damage(); });
}

void bind_writer(nb::module_& module) {
    nb::class_<Writer, chess::EntryWriter>(module, "BinpackWriter", "Turns entries into the bytes of a binpack file.")
        .def(nb::init<>())
        .def("copy_chunk", &copy_chunk, "file"_a, "chunk"_a, "first_chain"_a = 0,
             "Adds a chunk's entries, chain `first_chain` first and those before it last.")
        .def_prop_ro("chains", &Writer::chains)
        .def_prop_ro("chunks", &Writer::chunks);
}

void bind_reader(nb::module_& module) {
    nb::class_<Reader, chess::PositionReader>(module, "BinpackReader", "Binpack files for the stream.")
        .def(nb::init<std::vector<std::shared_ptr<const File>>>(), "files"_a);
}

}  // namespace

void bind(nb::module_& module) {
    bind_file(module);
    bind_writer(module);
    bind_reader(module);
}

}  // namespace sparsepool::binpack
