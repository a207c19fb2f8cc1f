#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include "chess/native/board/fen.h"
#include "chess/native/files/walk.h"
#include "chess/native/formats/pseudo_legal.h"
#include "chess/native/formats/record_walk.h"
#include "common/utf8.h"

namespace sparsepool::chess {
class Codec;
}

// Positions as the tools of Stockfish and nnue-pytorch print them, six lines each:
//
//     fen rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1
//     move e2e4
//     score 26         the mover's, internal units; 32002 none
//     ply 0
//     result 1         the mover's: -1, 0, 1
//     e
namespace sparsepool::plain {

inline constexpr std::string_view kEnd = "\ne";  // then a line's end
inline constexpr std::size_t kMaxQuoted = 40;    // letters of what is wrong

inline namespace SPARSEPOOL_ISA {

// The value of the next line, which must have this name; what is wrong in `fault`.
[[nodiscard]] inline std::string_view take_value(std::string_view& text, std::string_view name, std::string& fault) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with(name) || (line.size() > name.size() && line[name.size()] != ' ')) [[unlikely]] {
        fault = "expected the line '";
        fault += name;
        fault += "', got '";
        fault += shown(line.substr(0, kMaxQuoted));
        fault += '\'';
        return {};
    }
    text.remove_prefix(std::min(end + 1, text.size()));
    return line.substr(std::min(name.size() + 1, line.size()));
}

[[nodiscard]] inline int take_number(std::string_view& text, std::string_view name, int least, int most,
                                     std::string& fault) {
    if (!fault.empty()) return 0;
    const std::string_view value = take_value(text, name, fault);
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool good = error == std::errc{} && end == value.data() + value.size() && number >= least && number <= most;
    if (!good && fault.empty()) [[unlikely]] {
        fault = name;
        fault += " must be " + std::to_string(least) + " to " + std::to_string(most) + ", not '";
        fault += shown(value.substr(0, kMaxQuoted));
        fault += '\'';
    }
    return number;
}

// Reads a position; `text` begins behind it then. What is wrong, or nothing.
[[nodiscard]] inline std::string read_lines(std::string_view& text, unsigned required_parts, chess::Entry& entry) {
    std::string fault;
    unsigned number = 0;  // which the ply says
    const std::string_view fen = take_value(text, "fen", fault);
    if (!fault.empty()) return fault;
    fault = chess::parse_fen(fen, 4, entry.position, number, entry.missing_parts);
    if (!fault.empty()) return fault;
    entry.missing_parts = static_cast<std::uint8_t>(entry.missing_parts & ~unsigned{chess::kPlyPart});
    if (const char* missing = chess::describe_missing_part(entry.missing_parts & required_parts)) return missing;
    const std::string_view move = take_value(text, "move", fault);
    if (fault.empty()) fault = chess::parse_uci(move, entry.position, entry.move);
    entry.score = static_cast<std::int16_t>(take_number(text, "score", -32768, 32767, fault));
    entry.ply = static_cast<std::uint16_t>(take_number(text, "ply", 0, 65535, fault));
    entry.result = static_cast<std::int8_t>(take_number(text, "result", -1, 1, fault));
    if (fault.empty() && !take_value(text, "e", fault).empty()) fault = "expected the line 'e' alone";
    if (!fault.empty()) return fault;
    const char* wrong = chess::find_move_problem(entry);
    return wrong == nullptr ? std::string() : wrong;
}

// Where a position ends that begins at `begin` and can't be read: behind its last line, or before another one begins.
// No value holds the name of the first line.
[[nodiscard, gnu::noinline, gnu::cold]] inline std::size_t end_of_damage(std::string_view all, std::size_t begin) {
    const std::size_t next = std::min(all.find("fen ", begin + 1), all.size());
    const std::size_t last = std::min(all.find(kEnd, begin), all.size());
    if (next < last) return next;
    return std::min(all.find('\n', std::min(last + 1, all.size())), all.size() - 1) + 1;
}

[[nodiscard]] inline bool next_position(chess::WalkState& state) {
    if (!state.fault.empty()) [[unlikely]]
        return false;
    const std::string_view all(reinterpret_cast<const char*>(state.bytes.data()), state.bytes.size());
    while (true) {
        std::string_view text = all.substr(state.offset);
        while (!text.empty() && (text.front() == '\n' || text.front() == '\r')) text.remove_prefix(1);
        if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
        if (text.empty()) return false;
        state.offset = all.size() - text.size();
        std::string wrong = read_lines(text, state.options.required_parts, state.entry);
        const chess::Illegal illegal = wrong.empty() ? chess::evaluate_legality(state) : chess::classify_problem(wrong);
        if (wrong.empty() && illegal == chess::Illegal::kNone) [[likely]] {
            ++state.units;
            state.offset = all.size() - text.size();
            return true;
        }
        if (wrong.empty()) wrong = chess::describe(illegal);
        if (!chess::can_skip(state.options, illegal)) {
            ++state.units;
            state.fault = std::move(wrong);
            state.cut = text.find(kEnd) == std::string_view::npos;
            return false;
        }
        const std::size_t end = end_of_damage(all, state.offset);
        state.skipped.add_unit(illegal, wrong, state.offset, state.units + 1, {state.offset, end, state.units});
        state.offset = end;
        ++state.units;
    }
}

}  // namespace SPARSEPOOL_ISA

struct Kernels {
    chess::WalkKernels walk;

    static const Kernels baseline, avx2, avx512;  // common/simd.h
};

[[nodiscard]] const chess::Codec& codec();

}  // namespace sparsepool::plain
