#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "chess/native/board/fen.h"
#include "chess/native/board/position.h"
#include "chess/native/formats/pseudo_legal.h"
#include "chess/native/record.h"
#include "common/check.h"

namespace sparsepool::chess {

// Throws std::invalid_argument with the problem of an entry, unless that is empty.
inline void require_storable(const std::string& problem, std::string_view fen, std::string_view move) {
    require(problem.empty(), problem, ": ", fen, " ", move);
}

// Converts an entry of Python; a ply or result without a value is unknown. Throws std::invalid_argument.
[[nodiscard]] inline Entry make_entry(std::string_view fen, std::string_view move, std::int64_t score,
                                      std::optional<std::int64_t> ply, std::optional<std::int64_t> result) {
    Entry entry;
    unsigned move_number = 0;  // not used: the ply is an argument
    require_storable(parse_fen(fen, 4, entry.position, move_number, entry.missing_parts), fen, move);
    require_storable(parse_uci(move, entry.position, entry.move), fen, move);
    if (const char* problem = find_move_problem(entry)) require_storable(problem, fen, move);
    if (score < -32768 || score > 32767) require_storable("score must be -32768 to 32767", fen, move);
    if (ply && (*ply < 0 || *ply > 65535)) require_storable("ply must be 0 to 65535", fen, move);
    if (result && (*result < -1 || *result > 1)) require_storable("result must be -1, 0 or 1", fen, move);
    entry.score = static_cast<std::int16_t>(score);
    entry.ply = static_cast<std::uint16_t>(ply.value_or(0));
    entry.result = static_cast<std::int8_t>(result.value_or(kNoResult));
    const unsigned missing_in_fen = entry.missing_parts & ~unsigned{kPlyPart};
    entry.missing_parts = static_cast<std::uint8_t>(missing_in_fen | (ply ? 0U : unsigned{kPlyPart}));
    return entry;
}

}  // namespace sparsepool::chess
