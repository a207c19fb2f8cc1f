// Target: a text file with columns, plain or packed by gzip. The first byte says how the rest is used, which columns
// are what, and how lines are cut.
//
// What is read has rows that the settings allow, or a fault with a place in the text; each line alone gives the same;
// what is cut from a line and written again is cut the same.

#include <string>
#include <string_view>

#include "common/utf8.h"
#include "rows/formats/csv/native/text/cells.h"
#include "rows/formats/csv/native/text/parser.h"
#include "target.h"
#include "text_rows.h"

namespace {

using namespace sparsepool;
using namespace sparsepool::fuzz;

rows::RowShape shape_of(std::uint8_t choice) {
    rows::RowShape shape = labelled_shape(choice);
    shape.dense.push_back("number");
    shape.fields = {{"low", 0, 5, true, 2}, {"high", 5, 4'000'000'000, false, 4}};
    return shape;
}

csv::Columns columns_of(std::uint8_t choice, const rows::RowShape& shape) {
    csv::Columns columns;
    columns.cut.delimiter = (choice & 32) != 0 ? '\t' : ',';
    if ((choice & 64) != 0) columns.cut.quote = '"';
    columns.width = 4;
    for (std::size_t i = 0; i < shape.dense.size(); ++i) columns.dense.push_back(i);
    if (shape.qid) columns.qid = 1;
    columns.fields = {{1, 2, 3}, {3}};
    columns.seed = choice;
    columns.missing = {"", "NA"};
    columns.missing_number = -7.5F;
    columns.missing_is_feature = (choice & 128) != 0;
    return columns;
}

// Texts that are quoted are cut from their line as they were.
void check_cut(std::string_view text, const csv::Cut& cut) {
    const std::string line = std::string(text.substr(0, text.find('\n'))) + '\n';
    csv::Cells cells(cut);
    if (cells.split(line.data(), line.data() + line.size() - 1) != nullptr || !cut.quote) return;
    std::string again;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        if (i != 0) again += cut.delimiter;
        again += *cut.quote;
        for (const char character : cells[i]) again += std::string(character == *cut.quote ? 2 : 1, character);
        again += *cut.quote;
    }
    again += '\n';
    csv::Cells second(cut);
    FUZZ_REQUIRE(second.split(again.data(), again.data() + again.size() - 1) == nullptr);
    FUZZ_REQUIRE(second.size() == cells.size());
    for (std::size_t i = 0; i < cells.size(); ++i) FUZZ_REQUIRE(second[i] == cells[i]);
}

}  // namespace

void sparsepool::fuzz::check_input(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return;
    const std::uint8_t choice = data[0];
    const std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
    const rows::RowShape shape = shape_of(choice);
    const csv::Columns columns = columns_of(choice, shape);
    const bool packs = (data[1] & 1) != 0;
    const auto file = open_bytes(packs ? gzipped(rest) : std::string(rest));
    if (file == nullptr) return;
    std::string read;
    for (std::size_t piece = 0; piece < file->num_pieces(); ++piece) {
        const lines::Piece found = file->read(piece);
        const std::string_view text = found.lines();
        const rows::ParseResult parsed =
            check_text(text, shape, [&](std::string_view part, stream::RecordBuffer& rows) {
                return csv::parse_lines(part, false, columns, shape, rows);
            });
        FUZZ_REQUIRE(parsed.fault || utf8_prefix(text) == text.size());
        if (piece == 0) check_cut(found.lines(), columns.cut);
        read += found.lines();
    }
    FUZZ_REQUIRE(packs ? read == rest : file->is_packed() || read == rest);
}
