// Target: expressions of filters. Input: the text of one.
//
// It is refused with a column of its own, or it is a condition: 1 or 0 of each record, and of a record alone the same
// as among others.

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "chess/native/board/fen.h"
#include "chess/native/filters/where/compiler.h"
#include "chess/native/make_record.h"
#include "entries.h"
#include "target.h"

namespace {

using namespace sparsepool;

std::vector<chess::Record> some_records() {
    constexpr const char* kFens[] = {"rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
                                     "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1",
                                     "8/8/8/8/k2Pp2Q/8/8/3K4 b - d3 0 1"};
    std::vector<chess::Record> records;
    for (std::uint16_t i = 0; i < 150; ++i) {
        chess::Entry entry;
        FUZZ_REQUIRE(chess::parse_fen(kFens[i % 3], entry.position).empty());
        entry.score = static_cast<std::int16_t>(437 * i - 32768);
        entry.ply = static_cast<std::uint16_t>(i * i);
        entry.move.word = static_cast<std::uint16_t>(991 * i);
        entry.result = static_cast<std::int8_t>(i % 3 - 1);
        records.push_back(chess::make_record(entry));
    }
    return records;
}

void check_program(const chess::where::Program& program) {
    static const std::vector<chess::Record> records = some_records();
    std::vector<double> memory;
    std::vector<std::uint8_t> together(records.size(), 2);
    program.run(records, memory, together.data());
    for (std::size_t i = 0; i < records.size(); ++i) {
        std::uint8_t alone = 2;
        program.run({&records[i], 1}, memory, &alone);
        FUZZ_REQUIRE(together[i] <= 1 && alone == together[i]);
    }
}

}  // namespace

void sparsepool::fuzz::check_input(const std::uint8_t* data, std::size_t size) {
    // A copy of exactly the input's length, so that reading past its end is seen.
    const std::vector<char> copy(data, data + size);
    try {
        check_program(chess::where::compile({copy.data(), copy.size()}));
    } catch (const std::invalid_argument& refused) {
        const std::string_view said = refused.what();
        FUZZ_REQUIRE(said.starts_with("column "));
        FUZZ_REQUIRE(std::stoul(std::string(said.substr(7))) <= std::max<std::size_t>(size + 1, 1));
    }
}
