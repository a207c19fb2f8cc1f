#include <doctest/doctest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "lines/packed_file.h"
#include "lines/plain_file.h"
#include "rows/formats/svmlight/native/text/parser.h"
#include "rows/native/lines/number.h"

using namespace sparsepool;
using namespace sparsepool::rows;
using sparsepool::svmlight::parse_lines;

namespace {

void check_float(const std::string& text) {
    const std::string line = text + "\n";
    float number = 0;
    const char* const end = parse_float(line.c_str(), number);
    REQUIRE_MESSAGE(end != nullptr, text);
    CHECK_MESSAGE(end - line.c_str() == static_cast<std::ptrdiff_t>(text.size()), text);
    const float expected = std::strtof(text.c_str(), nullptr);
    CHECK_MESSAGE(std::bit_cast<std::uint32_t>(number) == std::bit_cast<std::uint32_t>(expected), text);
}

std::string printed(const char* format, double number) {
    char text[400];
    std::snprintf(text, sizeof text, format, number);
    return text;
}

// A file of these bytes, which goes with the object.
class Bytes {
  public:
    explicit Bytes(const std::string& bytes) {
        char name[] = "/tmp/svmlight-XXXXXX";
        ::close(::mkstemp(name));
        path_ = name;
        std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
    ~Bytes() { ::unlink(path_.c_str()); }
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;

    [[nodiscard]] std::shared_ptr<const lines::LineFile> open() const { return lines::LineFile::open(path_).file; }

  private:
    std::string path_;
};

std::string gzipped(const std::string& text) {
    z_stream stream{};
    REQUIRE(::deflateInit2(&stream, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    std::string out(::deflateBound(&stream, text.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    REQUIRE(::deflate(&stream, Z_FINISH) == Z_STREAM_END);
    out.resize(stream.total_out);
    ::deflateEnd(&stream);
    return out;
}

// Lines of random length, some longer than a block of deflate.
std::string random_lines(std::size_t size, unsigned seed) {
    std::mt19937 random(seed);
    std::string text;
    while (text.size() < size) {
        std::size_t length = random() % 200;
        if (random() % 3000 == 0) length = 400'000;
        for (; length != 0; --length) text += static_cast<char>('0' + random() % 64);
        text += '\n';
    }
    return text;
}

std::uint64_t lines_in(const std::string& text) { return static_cast<std::uint64_t>(std::ranges::count(text, '\n')); }

// Each piece once, in the given order.
void check_pieces(const lines::LineFile& file, const std::string& text, const std::vector<std::size_t>& order) {
    std::vector<std::string> pieces(file.num_pieces());
    std::vector<std::uint64_t> first_lines(file.num_pieces());
    for (const std::size_t number : order) {
        lines::Piece piece = file.read(number);
        REQUIRE(!piece.fault);
        pieces[number] = piece.lines();
        first_lines[number] = piece.first_line ? *piece.first_line : *file.lines_before(number);
    }
    std::string whole;
    for (std::size_t number = 0; number < pieces.size(); ++number) {
        CHECK(first_lines[number] == lines_in(whole));
        whole += pieces[number];
        CHECK((whole.empty() || whole.back() == '\n' || whole.size() == text.size()));
    }
    CHECK(whole == text);
}

void check_file(const std::string& bytes, const std::string& text) {
    const Bytes stored(bytes);
    const auto file = stored.open();
    REQUIRE(file != nullptr);
    std::vector<std::size_t> order(file->num_pieces());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    check_pieces(*file, text, order);
    for (unsigned seed = 0; seed < 2; ++seed) {
        std::shuffle(order.begin(), order.end(), std::mt19937(seed));
        check_pieces(*file, text, order);
        check_pieces(*stored.open(), text, order);
    }
}

rows::RowShape shape_of_one_field() {
    rows::RowShape shape;
    shape.dense = {"label"};
    shape.fields = {{"features", 0, 100, true, 3}};
    return shape;
}

}  // namespace

TEST_CASE("a decimal number is rounded as strtof rounds it") {
    for (const char* text : {"0",
                             "-0",
                             "1",
                             "1.5",
                             ".5",
                             "5.",
                             "1e0",
                             "1E+2",
                             "123456789",
                             "16777217",
                             "16777219",
                             "0.1",
                             "1e22",
                             "1e23",
                             "1e-22",
                             "1e-23",
                             "3.4028234e38",
                             "3.4028235677e38",
                             "1.17549435e-38",
                             "1e-45",
                             "0.7e-45",
                             "0.8e-45",
                             "9007199254740993",
                             "18446744073709551615",
                             "18446744073709551616",
                             "0.000000000000000000000000000000000000000000001",
                             "1.00000017881393432617187499",
                             "1.000000178813934326171875",
                             "1.00000017881393432617187501",
                             "1.0000000596046448",
                             "1.00000005960464477539",
                             "1.00000005960464477540",
                             "1e39",
                             "1e-400",
                             "-1e400",
                             "0e400",
                             "100000000000000000000000000000000000000000e-41",
                             "0.0e99999999999999999",
                             "1e-99999999999999999999",
                             "0000000000000000000000000000000000000000000012.5"}) {
        check_float(text);
    }
    std::mt19937_64 random(1);
    for (int i = 0; i < 30'000; ++i) {
        const auto number = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
        if (!std::isfinite(number)) continue;
        constexpr const char* kFormats[] = {"%.9g", "%.17g", "%.6g", "%.3e", "%.25e"};
        check_float(printed(kFormats[i % 5], static_cast<double>(number)));
        // In the middle between two floats, and a little off.
        const double middle = (static_cast<double>(number) + std::nextafter(number, 1.0F)) / 2;
        check_float(printed("%.40e", middle));
        check_float(printed("%.17g", middle));
        check_float(std::to_string(random() >> (random() % 64)) + "e" +
                    std::to_string(static_cast<int>(random() % 90) - 50));
    }
}

TEST_CASE("what is no number is none") {
    float number = 0;
    for (const char* text : {"\n", "-\n", "+\n", ".\n", "e5\n", "1e\n", "1e+\n", "inf\n", "nan\n", "+-1\n"}) {
        CHECK(parse_float(text, number) == nullptr);
    }
    std::uint64_t whole = 0;
    const char* digits = "18446744073709551616:";
    CHECK(parse_integer(digits, whole) == digits + 20);
    CHECK(whole == 18446744073709551615U);
    CHECK(parse_integer(":", whole) != nullptr);
    digits = "0018446744073709551614:";
    CHECK(*parse_integer(digits, whole) == ':');
    CHECK(whole == 18446744073709551614U);
}

TEST_CASE("lines become rows up to the first fault, which has its place") {
    const rows::RowShape shape = shape_of_one_field();
    stream::RecordBuffer rows(0);
    const std::string text = "# none\n1 3:0.5 7:2\n\n-2\n0 5:1 4:1\n1 1:1\n";
    const ParseResult parsed = parse_lines(text, shape, rows);
    CHECK(parsed.rows == 2);
    CHECK(parsed.lines == 4);
    REQUIRE(parsed.fault);
    CHECK(parsed.fault->line == 4);
    CHECK(parsed.fault->column == 6);
    REQUIRE(rows.size() == 2);
    const rows::RowView first(shape, rows.records()[0]);
    CHECK(first.dense(0) == 1.0F);
    REQUIRE(first.count(0) == 2);
    CHECK(first.words(0)[0] == 3);
    CHECK(first.words(0)[3] == std::bit_cast<std::uint32_t>(2.0F));
    const rows::RowView second(shape, rows.records()[1]);
    CHECK(second.dense(0) == -2.0F);
    CHECK(second.count(0) == 0);
}

TEST_CASE("a plain file is cut at the lines that begin behind each MiB, whatever is read first") {
    const std::string text = random_lines(4 << 20, 1);
    check_file(text, text);
    check_file(text + "no final newline", text + "no final newline");
    const std::string longer = std::string(3 << 20, 'x') + "\n" + text.substr(0, 100'000);
    check_file(longer, longer);
    const Bytes two(longer);
    CHECK(two.open()->num_pieces() == 2);
    const Bytes cut(text + "half a line");
    CHECK(cut.open()->whole_size() == text.size());
    const Bytes none("half a line");
    CHECK(none.open()->whole_size() == 0);
    const Bytes exact(std::string((1 << 20) - 1, 'x') + "\n" + "y\n");  // a line that begins at the MiB
    CHECK(exact.open()->num_pieces() == 2);
}

TEST_CASE("a compressed file has the same pieces in any order, from restart points and from the start") {
    const std::string text = random_lines(9 << 20, 2);
    const std::string one = gzipped(text);
    REQUIRE(one.size() / sparsepool::packed::Sequence::kPiece >
            sparsepool::packed::Sequence::kPointEvery);  // so that there is a restart point
    check_file(one, text);
    std::string members;
    for (std::size_t begin = 0; begin < text.size(); begin += 100'003) members += gzipped(text.substr(begin, 100'003));
    check_file(members, text);
    check_file(gzipped("") + gzipped("a\nb") + gzipped("") + gzipped("c\n"), "a\nbc\n");
    check_file(gzipped(""), "");
}

TEST_CASE("a compressed file may be cut anywhere, and says so") {
    const std::string text = random_lines(30'000, 4);
    const std::string bytes = gzipped(text) + gzipped(text);
    REQUIRE(bytes.size() < sparsepool::packed::Sequence::kPiece);
    const std::string whole = text + text;
    const std::size_t first = bytes.size() / 2;
    for (std::size_t size = 2; size < bytes.size(); size += size < 40 || bytes.size() - size < 40 ? 1 : 97) {
        const Bytes stored(bytes.substr(0, size));
        const lines::Piece piece = stored.open()->read(0);
        CHECK(piece.fault.has_value() == (size != first));
        CHECK(whole.starts_with(piece.lines()));
        CHECK(piece.lines().find_last_of('\n') + 1 == piece.lines().size());
    }
}
