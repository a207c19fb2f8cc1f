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

// Reads the lines of a text, each `NAME VALUE`, in their order. After the first problem nothing is read any more.
class FieldReader {
  public:
    explicit FieldReader(std::string_view text) : text_(text) {}

    [[nodiscard]] const std::string& problem() const { return problem_; }
    [[nodiscard]] std::size_t offset() const { return offset_; }  // behind the last line that was read

    // Reads the next line, which must have this name, and returns its value.
    [[nodiscard]] std::string_view read_value(std::string_view name) {
        if (!problem_.empty()) return {};
        const std::size_t end = std::min(text_.find('\n', offset_), text_.size());
        std::string_view line = text_.substr(offset_, end - offset_);
        if (line.ends_with('\r')) line.remove_suffix(1);
        const bool has_name = line.starts_with(name) && (line.size() == name.size() || line[name.size()] == ' ');
        if (!has_name) [[unlikely]] {
            set_wrong_line(name, line);
            return {};
        }
        offset_ = std::min(end + 1, text_.size());
        return line.substr(std::min(name.size() + 1, line.size()));
    }

    // Reads the next line, whose value must be a whole number from `min` to `max`.
    [[nodiscard]] int read_number(std::string_view name, int min, int max) {
        const std::string_view value = read_value(name);
        if (!problem_.empty()) return 0;
        int number = 0;
        const char* const end = value.data() + value.size();
        const auto [stop, error] = std::from_chars(value.data(), end, number);
        const bool is_number = error == std::errc{} && stop == end;
        if (!is_number || number < min || number > max) [[unlikely]] {
            set_wrong_number(name, min, max, value);
        }
        return number;
    }

    // Makes this the problem, unless there is one already.
    void set_problem(std::string problem) {
        if (problem_.empty()) problem_ = std::move(problem);
    }

  private:
    [[gnu::noinline, gnu::cold]] void set_wrong_line(std::string_view name, std::string_view line) {
        problem_ = "expected the line '" + std::string(name) + "', got '" + shown(line.substr(0, kMaxQuoted)) + "'";
    }

    [[gnu::noinline, gnu::cold]] void set_wrong_number(std::string_view name, int min, int max,
                                                       std::string_view value) {
        problem_ = std::string(name) + " must be " + std::to_string(min) + " to " + std::to_string(max) + ", not '" +
                   shown(value.substr(0, kMaxQuoted)) + "'";
    }

    std::string_view text_;
    std::size_t offset_ = 0;
    std::string problem_;
};

// Reads the six lines of a position into the entry. Returns what is wrong, or an empty text.
[[nodiscard]] inline std::string read_entry(FieldReader& fields, unsigned required_parts, chess::Entry& entry) {
    const std::string_view fen = fields.read_value("fen");
    if (!fields.problem().empty()) return fields.problem();
    unsigned move_number = 0;  // not used: the ply has a line of its own
    std::string fen_problem = chess::parse_fen(fen, 4, entry.position, move_number, entry.missing_parts);
    if (!fen_problem.empty()) return fen_problem;
    entry.missing_parts = static_cast<std::uint8_t>(entry.missing_parts & ~unsigned{chess::kPlyPart});
    if (const char* missing = chess::describe_missing_part(entry.missing_parts & required_parts)) return missing;
    const std::string_view move = fields.read_value("move");
    if (fields.problem().empty()) fields.set_problem(chess::parse_uci(move, entry.position, entry.move));
    entry.score = static_cast<std::int16_t>(fields.read_number("score", -32768, 32767));
    entry.ply = static_cast<std::uint16_t>(fields.read_number("ply", 0, 65535));
    entry.result = static_cast<std::int8_t>(fields.read_number("result", -1, 1));
    if (!fields.read_value("e").empty()) fields.set_problem("expected the line 'e' alone");
    if (!fields.problem().empty()) return fields.problem();
    const char* move_problem = chess::find_move_problem(entry);
    return move_problem == nullptr ? std::string() : move_problem;
}

// Returns where a position ends that begins at `begin` and can't be read: behind its line `e`, or before the next `fen`
// if that comes first. No value of a good position holds `fen`.
[[nodiscard, gnu::noinline, gnu::cold]] inline std::size_t find_damage_end(std::string_view text, std::size_t begin) {
    const std::size_t next_fen = std::min(text.find("fen ", begin + 1), text.size());
    const std::size_t last_line = std::min(text.find(kEnd, begin), text.size());
    if (next_fen < last_line) return next_fen;
    const std::size_t line_feed = text.find('\n', std::min(last_line + 1, text.size()));
    return std::min(line_feed, text.size() - 1) + 1;
}

// Skips empty lines, and a byte order mark: in a concatenated file there may be one before any position.
[[nodiscard]] inline std::size_t skip_empty_lines(std::string_view text, std::size_t offset) {
    while (offset < text.size() && (text[offset] == '\n' || text[offset] == '\r')) ++offset;
    if (text.substr(offset).starts_with(kByteOrderMark)) offset += kByteOrderMark.size();
    return offset;
}

// Reads the next good position into state.entry. Returns false at the end and at a fault.
[[nodiscard]] inline bool next_position(chess::WalkState& state) {
    if (!state.fault.empty()) [[unlikely]]
        return false;
    const std::string_view text(reinterpret_cast<const char*>(state.bytes.data()), state.bytes.size());
    while (true) {
        const std::size_t begin = skip_empty_lines(text, state.offset);
        if (begin == text.size()) return false;
        state.offset = begin;
        FieldReader fields(text.substr(begin));
        std::string problem = read_entry(fields, state.options.required_parts, state.entry);
        const chess::Illegal illegal =
            problem.empty() ? chess::evaluate_legality(state) : chess::classify_problem(problem);
        if (problem.empty() && illegal == chess::Illegal::kNone) [[likely]] {
            ++state.units;
            state.offset = begin + fields.offset();
            return true;
        }
        if (problem.empty()) problem = chess::describe(illegal);
        if (!chess::can_skip(state.options, illegal)) {
            ++state.units;
            state.fault = std::move(problem);
            state.truncated = text.find(kEnd, begin + fields.offset()) == std::string_view::npos;
            return false;
        }
        const std::size_t end = find_damage_end(text, begin);
        state.skipped.add_unit(illegal, problem, begin, state.units + 1, {begin, end, state.units});
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
