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

// A line `FEN | score | result`, both White's; blanks around the parts count for nothing. A result is 0.0, 0.5 or 1.0,
// also 0, 1/2, 1, and any of them in square brackets. A byte order mark before a line counts for
// nothing: it may stand inside of a file that was put together of others. `*` is no result, 32002 no score.
//
// Or a position with its result, as programs that tune evaluations have it (tuning_line.h).
namespace sparsepool::text {

inline namespace SPARSEPOOL_ISA {

[[nodiscard]] inline std::string read_parts(std::string_view fen, std::string_view score, std::string_view result,
                                            unsigned required_parts, chess::Entry& entry) {
    std::string wrong = chess::read_fen(fen, required_parts, entry);
    if (wrong.empty()) wrong = chess::read_score(score, entry);
    if (!wrong.empty()) return wrong;
    const std::optional<int> white = chess::read_result(result);
    if (!white) return chess::expected_but_got("the result must be 1.0, 0.5 or 0.0, White's, or *", result);
    entry.result = chess::result_for_side(*white, entry.position.side);
    return {};
}

[[nodiscard]] inline std::string read_line(std::string_view line, unsigned required_parts, chess::Entry& entry) {
    constexpr std::size_t kNone = std::string_view::npos;
    const std::size_t first = line.find('|');
    const std::size_t second = first == kNone ? kNone : line.find('|', first + 1);
    if (second == kNone) return read_tuning_line(line, required_parts, entry);
    if (line.find('|', second + 1) != kNone) return "a line is FEN | score | result";
    return read_parts(chess::trim(line.substr(0, first)), chess::trim(line.substr(first + 1, second - first - 1)),
                      chess::trim(line.substr(second + 1)), required_parts, entry);
}

[[nodiscard]] inline bool next_line(chess::WalkState& state) {
    if (!state.fault.empty()) [[unlikely]]
        return false;
    const std::string_view text(reinterpret_cast<const char*>(state.bytes.data()), state.bytes.size());
    while (state.offset < text.size()) {
        const std::size_t end = std::min(text.find('\n', state.offset), text.size());
        const std::string_view line = chess::trim(chess::strip_line(text.substr(state.offset, end - state.offset)));
        const std::size_t behind = std::min(end + 1, text.size());
        if (!line.empty()) {
            const std::string wrong = read_line(line, state.options.required_parts, state.entry);
            const chess::Illegal illegal =
                wrong.empty() ? chess::evaluate_legality(state) : chess::classify_problem(wrong);
            if (!wrong.empty() || illegal != chess::Illegal::kNone) [[unlikely]] {
                if (chess::skip_unit_or_stop(state, illegal, wrong.empty() ? chess::describe(illegal) : wrong, behind))
                    continue;
                state.cut = end == text.size();
                return false;
            }
        }
        state.offset = behind;
        ++state.units;
        if (!line.empty()) return true;
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
