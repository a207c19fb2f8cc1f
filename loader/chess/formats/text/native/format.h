#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "chess/formats/text/native/tuning_line.h"
#include "chess/native/files/walk.h"
#include "chess/native/formats/record_walk.h"
#include "chess/native/formats/text_fields.h"

namespace sparsepool::chess {
class Codec;
}

// Lines `FEN | score | result`, both White's. Blanks around the parts are ignored. A result is 0.0, 0.5 or 1.0, also 0,
// 1/2 and 1, and any of them in square brackets; `*` is no result, and 32002 no score. A byte order mark before a line
// is ignored: a concatenated file may have one anywhere.
//
// Or lines of a position with its result, as programs that tune evaluations have it (tuning_line.h).
namespace sparsepool::text {

inline namespace SPARSEPOOL_ISA {

// Parses the three parts of a line into the entry. Returns what is wrong, or an empty text.
[[nodiscard]] inline std::string read_parts(std::string_view fen, std::string_view score, std::string_view result,
                                            unsigned required_parts, chess::Entry& entry) {
    std::string problem = chess::read_fen(fen, required_parts, entry);
    if (problem.empty()) problem = chess::read_score(score, entry);
    if (!problem.empty()) return problem;
    const std::optional<int> white_result = chess::read_result(result);
    if (!white_result) return chess::expected_but_got("the result must be 1.0, 0.5 or 0.0, White's, or *", result);
    entry.result = chess::result_for_side(*white_result, entry.position.side);
    return {};
}

// Parses a line into the entry. Returns what is wrong, or an empty text.
[[nodiscard]] inline std::string read_line(std::string_view line, unsigned required_parts, chess::Entry& entry) {
    constexpr std::size_t kNone = std::string_view::npos;
    const std::size_t first_bar = line.find('|');
    const std::size_t second_bar = first_bar == kNone ? kNone : line.find('|', first_bar + 1);
    if (second_bar == kNone) return read_tuning_line(line, required_parts, entry);
    if (line.find('|', second_bar + 1) != kNone) return "a line is FEN | score | result";
    const std::string_view fen = chess::trim(line.substr(0, first_bar));
    const std::string_view score = chess::trim(line.substr(first_bar + 1, second_bar - first_bar - 1));
    const std::string_view result = chess::trim(line.substr(second_bar + 1));
    return read_parts(fen, score, result, required_parts, entry);
}

// Reads the next good line into state.entry. Returns false at the end and at a fault.
[[nodiscard]] inline bool next_line(chess::WalkState& state) {
    if (!state.fault.empty()) [[unlikely]]
        return false;
    const std::string_view text(reinterpret_cast<const char*>(state.bytes.data()), state.bytes.size());
    while (state.offset < text.size()) {
        const std::size_t end = std::min(text.find('\n', state.offset), text.size());
        const std::size_t next_begin = std::min(end + 1, text.size());
        const std::string_view line = chess::trim(chess::strip_line(text.substr(state.offset, end - state.offset)));
        if (line.empty()) {
            state.offset = next_begin;
            ++state.units;
            continue;
        }
        std::string problem = read_line(line, state.options.required_parts, state.entry);
        const chess::Illegal illegal =
            problem.empty() ? chess::evaluate_legality(state) : chess::classify_problem(problem);
        if (problem.empty() && illegal == chess::Illegal::kNone) [[likely]] {
            state.offset = next_begin;
            ++state.units;
            return true;
        }
        if (problem.empty()) problem = chess::describe(illegal);
        if (!chess::skip_unit_or_stop(state, illegal, problem, next_begin)) {
            state.truncated = end == text.size();
            return false;
        }
    }
    return false;
}

}  // namespace SPARSEPOOL_ISA

struct Kernels {
    chess::WalkKernels walk;

    static const Kernels baseline, avx2, avx512;  // common/simd.h
};

// Lines `FEN | score | result`, both White's; blanks around the parts count for nothing, and so do lines of blanks.
[[nodiscard]] const chess::Codec& codec();

}  // namespace sparsepool::text
