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

// Throws what is wrong with an entry, if anything is.
inline void require_storable(const std::string& fault, std::string_view fen, std::string_view move) {
    require(fault.empty(), fault, ": ", fen, " ", move);
}

// An entry as Python says it; without a ply or a result that is unknown. Throws std::invalid_argument.
[[nodiscard]] inline Entry make_entry(std::string_view fen, std::string_view move, std::int64_t score,
                                      std::optional<std::int64_t> ply, std::optional<std::int64_t> result) {
    Entry entry;
    unsigned number = 0;  // which the ply says
    std::string fault = parse_fen(fen, 4, entry.position, number, entry.missing_parts);
    if (fault.empty()) fault = parse_uci(move, entry.position, entry.move);
    if (const char* problem = fault.empty() ? find_move_problem(entry) : nullptr) fault = problem;
    if (fault.empty() && (score < -32768 || score > 32767)) fault = "score must be -32768 to 32767";
    if (fault.empty() && (ply.value_or(0) < 0 || ply.value_or(0) > 65535)) fault = "ply must be 0 to 65535";
    if (fault.empty() && (result.value_or(0) < -1 || result.value_or(0) > 1)) fault = "result must be -1, 0 or 1";
    require_storable(fault, fen, move);
    entry.score = static_cast<std::int16_t>(score);
    entry.ply = static_cast<std::uint16_t>(ply.value_or(0));
    entry.missing_parts =
        static_cast<std::uint8_t>((entry.missing_parts & ~unsigned{kPlyPart}) | (ply ? 0U : unsigned{kPlyPart}));
    entry.result = static_cast<std::int8_t>(result.value_or(kNoResult));
    return entry;
}

}  // namespace sparsepool::chess
