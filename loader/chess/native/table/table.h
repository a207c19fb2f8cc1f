#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "chess/native/files/writer.h"
#include "chess/native/kernels.h"
#include "chess/native/record.h"
#include "common/simd.h"

// Entries as rows of a table, every part of each a field: what Python has of them.
namespace sparsepool::chess {

// Squares: a1 0, h1 7, h8 63. loader/chess/positions/table.py has the same fields.
struct Row {
    std::int8_t board[64] = {};  // by square: White's pawn 1, knight 2, ..., king 6; Black's negative; 0 nothing
    // Of the rooks that may castle, White's on the king's side first, then White's other, Black's; 64: none.
    std::uint8_t castling[4] = {kNoSquare, kNoSquare, kNoSquare, kNoSquare};
    std::int16_t score = 0;  // or kNoScore
    std::uint16_t ply = 0;
    std::int8_t result = 0;         // or kNoResult
    std::uint8_t side_to_move = 0;  // Colour
    std::uint8_t en_passant = kNoSquare;
    std::uint8_t move_from = kNoSquare;  // no move: both are kNoSquare; castling: onto the own rook
    std::uint16_t clock = 0;
    std::uint8_t move_to = kNoSquare;
    std::uint8_t promotion = 0;  // as on the board; 0 none
};
static_assert(sizeof(Row) == 80);

[[nodiscard]] Row to_row(const Entry& entry);

// Converts a row to an entry; moves as parse_uci parses them. Returns what is wrong, or an empty text.
[[nodiscard]] std::string to_entry(const Row& row, Entry& entry);

// Keeps entries instead of writing them. Not for two threads at once.
class TableWriter final : public EntryWriter {
  public:
    // `keeps_records`: also as records, for filters.
    explicit TableWriter(bool keeps_records) : keeps_records_(keeps_records) {}

    [[nodiscard]] std::string add(const Entry& entry) override {
        rows_.push_back(to_row(entry));
        if (keeps_records_) simd::kernels<Kernels>().write_record(entry, records_.emplace_back());
        ++entries_;
        return {};
    }
    void finish() override {}

    // These return the rows or records that were added since the last call.
    [[nodiscard]] std::vector<Row> take_rows() { return std::exchange(rows_, {}); }
    [[nodiscard]] std::vector<Record> take_records() { return std::exchange(records_, {}); }

  private:
    bool keeps_records_;
    std::vector<Row> rows_;
    std::vector<Record> records_;
};

}  // namespace sparsepool::chess
