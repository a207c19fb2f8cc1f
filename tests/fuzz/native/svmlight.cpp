// Target: an svmlight file, plain or compressed. The first byte says how the rest is used: as the file itself, or as
// what gzip packs, of which the end may be lacking.
//
// What is read has rows that the settings allow, or a fault with a place in the text; each line alone gives the same;
// a compressed file gives the rows of its text, up to the damage.

#include <string>
#include <string_view>

#include "lines/line_file.h"
#include "rows/formats/svmlight/native/text/parser.h"
#include "target.h"
#include "text_rows.h"

namespace {

using namespace sparsepool;
using namespace sparsepool::fuzz;

rows::RowShape shape_of(std::uint8_t choice) {
    rows::RowShape shape = labelled_shape(choice);
    shape.first_number = (choice & 32) != 0 ? 1 : 0;
    shape.fields = {{"low", 0, 5, true, 3}, {"middle", 6, 10, false, 4}, {"high", 10, 4'000'000'000, true, 2}};
    return shape;
}

}  // namespace

void sparsepool::fuzz::check_input(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return;
    const std::uint8_t choice = data[0];
    const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
    const rows::RowShape shape = shape_of(choice);
    std::string bytes(rest);
    const bool packs = (choice & 1) != 0;
    if (packs) bytes = gzipped(rest);
    const std::size_t whole = bytes.size();
    if (packs && (choice & 2) != 0) bytes.resize(whole - std::min<std::size_t>(whole - 2, choice >> 2));
    const auto file = open_bytes(bytes);
    if (file == nullptr) return;
    std::string read;
    for (std::size_t piece = 0; piece < file->num_pieces(); ++piece) {
        const lines::Piece found = file->read(piece);
        (void)check_text(found.lines(), shape, [&](std::string_view text, stream::RecordBuffer& rows) {
            return svmlight::parse_lines(text, shape, rows);
        });
        read += found.lines();
        if (packs) FUZZ_REQUIRE(found.fault.has_value() == (bytes.size() != whole));
    }
    FUZZ_REQUIRE(packs || file->is_packed() || read == rest);
    FUZZ_REQUIRE(!packs || (bytes.size() == whole ? read == rest : rest.starts_with(read)));
}
