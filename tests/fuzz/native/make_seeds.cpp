// Cuts real files into small inputs for the targets: make_seeds FOLDER FILE.binpack...
//
// FOLDER/binpack gets files of a few chains, FOLDER/features their stems, FOLDER/fen their entries as text,
// FOLDER/bulletformat and those of the other formats of positions the same entries,
// FOLDER/fen_csv and FOLDER/lichess_evals too,
// FOLDER/layout a few changes to a table, FOLDER/svmlight lines of a label and features, FOLDER/csv lines with
// columns.

#include <filesystem>
#include <fstream>
#include <iostream>

#include "chess/formats/binpack/native/format.h"
#include "chess/formats/bulletformat/native/format.h"
#include "chess/formats/marlinformat/native/format.h"
#include "chess/formats/montyvalue/native/format.h"
#include "chess/formats/packedsfen/native/format.h"
#include "chess/formats/pgn/native/format.h"
#include "chess/formats/plain/native/format.h"
#include "chess/formats/text/native/format.h"
#include "chess/formats/viriformat/native/format.h"
#include "chess/native/board/fen.h"
#include "chess/native/files/file.h"
#include "chunks.h"
#include "entries.h"

namespace {

using namespace sparsepool;
using fuzz::Bytes;
namespace fs = std::filesystem;

constexpr std::pair<const char*, const chess::Codec& (*)()> kCodecs[] = {
    {"bulletformat", bulletformat::codec},
    {"marlinformat", marlinformat::codec},
    {"montyvalue", montyvalue::codec},
    {"packedsfen", packedsfen::codec},
    {"pgn", pgn::codec},
    {"plain", plain::codec},
    {"text", text::codec},
    {"viriformat", viriformat::codec},
};
constexpr std::size_t kInputs = 200;     // of each kind, spread over the files
constexpr std::size_t kMaxBytes = 1000;  // of one input

void save(const fs::path& folder, std::size_t number, const void* data, std::size_t size) {
    fs::create_directories(folder);
    std::ofstream(folder / ("seed" + std::to_string(number)), std::ios::binary)
        .write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
}

std::string line_of(const chess::Entry& entry) {
    char text[chess::kMaxFen + chess::kMaxUci + 1];
    char* end = chess::write_fen(entry.position, 1, text);
    *end++ = ';';
    end = chess::write_uci(entry.move, entry.position.chess960, end);
    return std::string(text, end) + ";" + std::to_string(entry.score) + ";" + std::to_string(entry.ply) + ";" +
           std::to_string(entry.result) + "\n";
}

// Lines of the formats that are only read.
std::string to_row(const chess::Entry& entry, std::size_t number) {
    char text[chess::kMaxFen];
    const std::string fen(text, chess::write_fen(entry.position, 1, text));
    const std::string score = number % 3 == 0 ? "#" + std::to_string(entry.score % 9) : std::to_string(entry.score);
    return "\"" + fen + "\"," + score + "," + (number % 2 == 0 ? "0.5" : "1-0") + "\n";
}

std::string object_of(const chess::Entry& entry, std::size_t number) {
    char text[chess::kMaxFen];
    const std::string fen(text, chess::write_fen(entry.position, 1, text, 4));
    const std::string line(text, chess::write_uci(entry.move, true, text));
    const std::string score =
        number % 3 == 0 ? "\"mate\":" + std::to_string(entry.score % 9) : "\"cp\":" + std::to_string(entry.score);
    return "{\"fen\":\"" + fen + "\",\"evals\":[{\"pvs\":[{" + score + ",\"line\":\"" + line +
           " e2e4\"}],\"knodes\":9,\"depth\":" + std::to_string(number) + "},{\"pvs\":[],\"depth\":1}]}\n";
}

// The chains from `begin` on, `count` of them if they are small enough; in one chunk or two.
void cut(const fs::path& folder, std::size_t number, std::span<const std::uint8_t> payload,
         const std::vector<std::size_t>& begins, std::size_t begin, std::size_t count) {
    std::size_t end = std::min(begin + count, begins.size() - 1);
    while (end > begin + 1 && begins[end] - begins[begin] > kMaxBytes) --end;
    const auto piece = payload.subspan(begins[begin], begins[end] - begins[begin]);
    if (piece.size() > kMaxBytes) return;
    std::vector<Bytes> chunks{{piece.begin(), piece.end()}};
    if (number % 3 == 0) chunks.push_back(chunks.front());
    const Bytes file = fuzz::join_chunks(chunks);
    save(folder / "binpack", number, file.data(), file.size());
    Bytes stems{static_cast<std::uint8_t>(number)};
    for (std::size_t i = begin; i < end; ++i) {
        const auto stem = payload.subspan(begins[i], binpack::kStemBytes);
        stems.insert(stems.end(), stem.begin(), stem.end());
    }
    save(folder / "features", number, stems.data(), stems.size());
    binpack::ChunkState state;
    const auto entries = fuzz::read_entries(piece, state);
    std::string lines;
    for (std::size_t i = number % 7; i < entries.size() && i < number % 7 + 5; ++i) lines += line_of(entries[i].entry);
    save(folder / "fen", number, lines.data(), lines.size());
    std::string rows(1, static_cast<char>(number));
    std::string objects = rows;
    rows += number % 4 == 0 ? "FEN,Evaluation,result\n" : "fen,score,result\n";
    for (std::size_t i = number % 7; i < entries.size() && i < number % 7 + 8; ++i) {
        rows += to_row(entries[i].entry, i);
        objects += object_of(entries[i].entry, i);
    }
    save(folder / "fen_csv", number, rows.data(), rows.size());
    save(folder / "lichess_evals", number, objects.data(), objects.size());
    for (const auto& [name, codec] : kCodecs) {
        const auto writer = codec().make_writer();
        for (std::size_t i = number % 7; i < entries.size() && i < number % 7 + 12; ++i) {
            (void)writer->add(entries[i].entry);  // what it refuses is left out
        }
        writer->finish();
        Bytes bytes = writer->take();
        bytes.insert(bytes.begin(), static_cast<std::uint8_t>(number));
        save(folder / name, number, bytes.data(), bytes.size());
    }
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 3) {
        std::cerr << "make_seeds FOLDER FILE.binpack...\n";
        return 2;
    }
    const fs::path folder = arguments[1];
    const std::size_t files = static_cast<std::size_t>(count) - 2;
    for (std::size_t number = 0; number < kInputs; ++number) {
        const auto opened = binpack::codec().open(arguments[2 + number % files], std::nullopt, {}, std::nullopt);
        if (!opened.file || opened.file->num_pieces() == 0) {
            std::cerr << arguments[2 + number % files] << ": " << opened.fault.reason << "\n";
            return 1;
        }
        const auto piece = opened.file->read(number % opened.file->num_pieces());
        const auto payload = chess::span_of(piece.bytes);
        auto begins = fuzz::chain_begins({payload.begin(), payload.end()});
        begins.push_back(payload.size());
        cut(folder, number, payload, begins, number * (begins.size() - 1) / kInputs, 1 + number % 5);
    }
    for (std::uint8_t number = 0; number < 64; ++number) {
        const std::uint8_t bytes[] = {number, 5, static_cast<std::uint8_t>(number / 5), number, 1, 2, 3, 4, 5, 6, 7, 8};
        save(folder / "layout", number, bytes, number % 3 == 0 ? 2 : sizeof bytes);
        const std::string lines = std::string(1, static_cast<char>(number)) +
                                  "# rows\n+1 qid:" + std::to_string(number) + " 1:0.5 3:1e-" + std::to_string(number) +
                                  "\r\n-1:2.5 2:1\t7:" + std::to_string(1.0 / number) +
                                  " # end\n\n0 9:12345678901234567890";
        save(folder / "svmlight", number, lines.data(), lines.size());
        const std::string columns = std::string(1, static_cast<char>(number * 4)) + static_cast<char>(number) +
                                    "1,1.5,\"a \"\"b\"\", c\",\xC3\xBC\n\r\n0," + std::to_string(number) +
                                    ",NA,\r\n-1\t2\t" + std::to_string(1.0 / number) + "\t\n1,-3,1e" +
                                    std::to_string(number) + ",x\"y";
        save(folder / "csv", number, columns.data(), columns.size());
    }
    return 0;
}
