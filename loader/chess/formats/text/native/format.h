#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

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
// Or a position with its result alone, as programs that tune evaluations have it: `FEN c9 "1-0";`, `FEN [0.5]`.
namespace sparsepool::text {

inline namespace SPARSEPOOL_ISA {

[[nodiscard]] inline std::string read_parts(std::string_view fen, std::string_view score, std::string_view result,
                                            unsigned needed, chess::Entry& entry) {
    std::string wrong = chess::read_fen(fen, needed, entry);
    if (wrong.empty()) wrong = chess::read_score(score, entry);
    if (!wrong.empty()) return wrong;
    const std::optional<int> white = chess::read_result(result);
    if (!white) return chess::with_quoted("the result must be 1.0, 0.5 or 0.0, White's, or *", result);
    entry.result = chess::turned_result(*white, entry.position.side);
    return {};
}

// A line without scores. Operations of EPD behind c9 count for nothing.
[[nodiscard]] inline std::string read_tuning_line(std::string_view line, unsigned needed, chess::Entry& entry) {
    constexpr std::size_t kNone = std::string_view::npos;
    constexpr std::string_view kOperation = " c9 \"";
    const std::size_t operation = line.find(kOperation);
    const std::size_t begin = operation != kNone ? operation + kOperation.size() : line.find('[');
    const std::size_t end = begin == kNone ? kNone : line.find(operation != kNone ? '"' : ']', begin);
    if (end == kNone) return "a line is FEN | score | result, FEN c9 \"result\" or FEN [result]";
    const std::string_view behind = chess::trimmed(line.substr(end + 1));
    if (!behind.empty() && (operation == kNone || behind.front() != ';'))
        return chess::with_quoted("nothing stands behind the result", behind);
    std::string wrong =
        chess::read_fen(chess::trimmed(line.substr(0, operation != kNone ? operation : begin)), needed, entry);
    if (!wrong.empty()) return wrong;
    const std::string_view word = line.substr(begin, end - begin + (operation != kNone ? 0 : 1));
    const std::optional<int> white = chess::read_game_result(word);
    if (!white)
        return chess::with_quoted("the result must be 1-0, 1/2-1/2 or 0-1, or 1.0, 0.5 or 0.0 in brackets", word);
    entry.score = chess::kNoScore;
    entry.result = chess::turned_result(*white, entry.position.side);
    return {};
}

[[nodiscard]] inline std::string read_line(std::string_view line, unsigned needed, chess::Entry& entry) {
    constexpr std::size_t kNone = std::string_view::npos;
    const std::size_t first = line.find('|');
    const std::size_t second = first == kNone ? kNone : line.find('|', first + 1);
    if (first == kNone) return read_tuning_line(line, needed, entry);
    if (second == kNone || line.find('|', second + 1) != kNone) return "a line is FEN | score | result";
    return read_parts(chess::trimmed(line.substr(0, first)), chess::trimmed(line.substr(first + 1, second - first - 1)),
                      chess::trimmed(line.substr(second + 1)), needed, entry);
}

[[nodiscard]] inline bool next_line(chess::WalkState& state) {
    if (!state.fault.empty()) [[unlikely]]
        return false;
    const std::string_view text(reinterpret_cast<const char*>(state.bytes.data()), state.bytes.size());
    while (state.at < text.size()) {
        const std::size_t end = std::min(text.find('\n', state.at), text.size());
        const std::string_view line = chess::trimmed(chess::bare_line(text.substr(state.at, end - state.at)));
        const std::size_t behind = std::min(end + 1, text.size());
        if (!line.empty()) {
            const std::string wrong = read_line(line, state.demands.needed, state.entry);
            const chess::Illegal illegal = wrong.empty() ? chess::judged(state) : chess::meaning_of(wrong);
            if (!wrong.empty() || illegal != chess::Illegal::kNone) [[unlikely]] {
                if (chess::leave_out_unit(state, illegal, wrong.empty() ? chess::words_of(illegal) : wrong, behind))
                    continue;
                state.cut = end == text.size();
                return false;
            }
        }
        state.at = behind;
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
