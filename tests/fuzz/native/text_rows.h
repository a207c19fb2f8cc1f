#pragma once

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "entries.h"
#include "lines/line_file.h"
#include "rows/native/lines/parse_result.h"
#include "rows/native/record.h"

// What the targets of text formats share: rows that the settings allow, files that are packed, files in memory.
namespace sparsepool::fuzz {

inline void check_row(const rows::RowShape& shape, std::span<const std::byte> record) {
    const rows::RowView row(shape, record);
    std::size_t words = shape.head_words();
    for (std::size_t i = 0; i < shape.dense.size(); ++i) FUZZ_REQUIRE(std::isfinite(row.dense(i)));
    for (std::size_t i = 0; i < shape.fields.size(); ++i) {
        const rows::Field& field = shape.fields[i];
        const std::uint32_t* word = row.words(i);
        FUZZ_REQUIRE(row.count(i) <= field.max_active);
        std::int64_t last = -1;
        for (std::uint32_t left = row.count(i); left != 0; --left) {
            FUZZ_REQUIRE(*word < field.size() && std::int64_t{*word} > last);
            last = *word++;
            if (field.values) ++word;
        }
        words += std::size_t{row.count(i)} * (field.values ? 2 : 1);
    }
    FUZZ_REQUIRE(record.size() == 4 * words);
}

inline bool begins_with(const stream::RecordBuffer& whole, const stream::RecordBuffer& part) {
    return whole.size() >= part.size() && whole.num_bytes() >= part.num_bytes() &&
           (part.num_bytes() == 0 || std::memcmp(whole.data(), part.data(), part.num_bytes()) == 0);
}

inline constexpr std::uint64_t kMostAlone = 10'000;  // lines of a text: a packed file of 100 bytes may hold millions

// Of rows with a label, and by the choice with weights, query numbers or two classes; the fields are still to come.
inline rows::RowShape labelled_shape(std::uint8_t choice) {
    rows::RowShape shape;
    shape.dense = {"label"};
    if ((choice & 4) != 0) {
        shape.dense.push_back("weight");
        shape.weight = true;
    }
    shape.qid = (choice & 8) != 0;
    shape.label = (choice & 16) != 0 ? rows::LabelKind::kBinary : rows::LabelKind::kReal;
    return shape;
}

// Rows that the settings allow, or a fault with a place in the text; each of the first lines alone gives the same.
// parse(text, rows) reads a text that has its line feed behind it.
template <class Parse>
rows::ParseResult check_text(std::string_view text, const rows::RowShape& shape, const Parse& parse) {
    stream::RecordBuffer rows(0);
    rows::ParseResult parsed = parse(text, rows);
    FUZZ_REQUIRE(parsed.rows == rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) check_row(shape, rows.records()[i]);
    stream::RecordBuffer alone(0);
    std::uint64_t line = 0;
    std::size_t begin = 0;
    for (; begin < text.size() && line < kMostAlone; ++line) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const std::string copy(text.substr(begin, end - begin));  // so that reading past its end is seen
        const rows::ParseResult one = parse(std::string_view(copy + "\n").substr(0, copy.size()), alone);
        if (one.fault) {
            FUZZ_REQUIRE(parsed.fault && parsed.fault->line == line && parsed.fault->column == one.fault->column);
            FUZZ_REQUIRE(!one.fault->column || *one.fault->column <= copy.size());
            FUZZ_REQUIRE(parsed.fault->reason == one.fault->reason);
            break;
        }
        FUZZ_REQUIRE(!parsed.fault || parsed.fault->line > line);
        begin = end + 1;
    }
    FUZZ_REQUIRE(begins_with(rows, alone));
    FUZZ_REQUIRE(rows.size() == alone.size() || line == kMostAlone);
    return parsed;
}

inline std::string gzipped(std::string_view text) {
    z_stream stream{};
    FUZZ_REQUIRE(::deflateInit2(&stream, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    std::string out(::deflateBound(&stream, text.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    FUZZ_REQUIRE(::deflate(&stream, Z_FINISH) == Z_STREAM_END);
    out.resize(stream.total_out);
    ::deflateEnd(&stream);
    return out;
}

// One file in memory for all inputs, to be opened by its name, as any file. Gives back the name.
inline const std::string& file_of(std::string_view bytes) {
    static const int descriptor = ::memfd_create("input", MFD_CLOEXEC);
    static const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    FUZZ_REQUIRE(::ftruncate(descriptor, 0) == 0);
    FUZZ_REQUIRE(::pwrite(descriptor, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    return path;
}

// Null for a text that begins with a mark of UTF-16, and for no other.
inline std::shared_ptr<const lines::LineFile> open_bytes(std::string_view bytes) {
    lines::LineFile::Opened opened = lines::LineFile::open(file_of(bytes));
    const bool is_utf16 = bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF");
    FUZZ_REQUIRE((opened.file == nullptr) == is_utf16);
    return opened.file;
}

}  // namespace sparsepool::fuzz
