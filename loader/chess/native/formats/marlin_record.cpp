#include "chess/native/formats/marlin_record.h"

#include <algorithm>

#include "chess/native/formats/storable.h"

namespace sparsepool::chess {
namespace {

// Returns the squares of rooks that have their castling rights.
Bitboard castling_rooks(const Position& position) {
    Bitboard rooks = 0;
    for (unsigned bit = 0; bit < 4; ++bit) {
        if ((position.castling >> bit & 1U) != 0) rooks |= bit_of(position.castling_rook_square(bit));
    }
    return rooks;
}

}  // namespace

const char* find_marlin_board_problem(const Position& position) {
    if (const char* problem = find_castling_problem(position)) return problem;
    return find_en_passant_problem(position);
}

// The layout is that of marlin_record.h.
void write_marlin_record(const Entry& entry, std::int16_t white_score, std::uint8_t* out) {
    const Position& position = entry.position;
    write_nibbles(position, castling_rooks(position), out);
    out[24] = static_cast<std::uint8_t>(position.ep_square | position.side << 7);
    out[25] = static_cast<std::uint8_t>(std::min<unsigned>(position.rule50, kMarlinClock));
    const std::uint16_t move_number = move_number_of(entry);
    std::memcpy(out + 26, &move_number, sizeof move_number);
    std::memcpy(out + 28, &white_score, sizeof white_score);
    out[30] = static_cast<std::uint8_t>(white_result(entry) + 1);
    out[31] = 0;
}

}  // namespace sparsepool::chess
