#pragma once

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "chess/native/board/fen.h"
#include "chess/native/files/walk.h"
#include "chess/native/formats/record_walk.h"
#include "common/utf8.h"

namespace sparsepool::chess {
class Codec;
}

// A line `FEN | score | result`, both White's; blanks around the parts count for nothing. A result is 0.0, 0.5 or 1.0,
// also 0, 1/2, 1, and any of them in square brackets. A byte order mark before a line counts for
// nothing: it may stand inside of a file that was put together of others. `*` is no result, 32002 no score.
//
// Or a position with its result alone, as programs that tune evaluations have it: `FEN c9 "1-0";`, `FEN [0.5]`.
namespace sparsepool::text {

inline constexpr std::size_t kShown = 40;  // characters of what is wrong

inline namespace SPARSEPOOL_ISA {

[[nodiscard]] inline bool is_blank(char letter) {
    return letter == ' ' || letter == '\t' || letter == '\r' || letter == '\v' || letter == '\f';
}

[[nodiscard]] inline std::string_view trimmed(std::string_view text) {
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    return text;
}

[[nodiscard, gnu::noinline, gnu::cold]] inline std::string with_quoted(const char* words, std::string_view text) {
    std::size_t end = std::min(text.size(), kShown);
    while (end < text.size() && (static_cast<std::uint8_t>(text[end]) & 0xC0) == 0x80) --end;  // no half letter
    return std::string(words) + ", not '" + shown(text.substr(0, end)) + "'";
}

// -1, 0 or 1, or kNoResult; nothing for what is none of these.
[[nodiscard]] inline std::optional<int> read_result(std::string_view word) {
    if (word.size() > 2 && word.front() == '[' && word.back() == ']') word = word.substr(1, word.size() - 2);
    std::uint32_t letters = 0;
    if (word.size() == 3) {
        std::memcpy(&letters, word.data(), 3);
    } else if (word.size() == 1) {
        letters = static_cast<std::uint8_t>(word.front());
    }
    const auto is = [](const char* text) {
        std::uint32_t known = 0;
        for (unsigned i = 0; text[i] != 0; ++i) known |= static_cast<std::uint32_t>(text[i]) << (8 * i);
        return known;
    };
    if (letters == is("1.0") || letters == is("1")) return 1;
    if (letters == is("0.0") || letters == is("0")) return -1;
    if (letters == is("*")) return chess::kNoResult;
    if (letters == is("0.5") || letters == is("1/2")) return 0;
    return std::nullopt;
}

// What is wrong with a part of a line; nothing if it is good.
[[nodiscard]] inline std::string read_fen(std::string_view fen, bool needs_ply, chess::Entry& entry) {
    unsigned number = 0;
    std::string wrong = chess::parse_fen(fen, 2, entry.position, number, entry.lacks);
    if (!wrong.empty()) return wrong;
    if (number == 0 && needs_ply) return "the FEN has no move number: no ply is known, and a filter needs it";
    if (const char* fault = chess::number_fault(number, false)) return fault;
    entry.ply = chess::ply_of(number, entry.position.side);
    entry.move = {};
    return {};
}

[[nodiscard]] inline std::string read_parts(std::string_view fen, std::string_view score, std::string_view result,
                                            bool needs_ply, chess::Entry& entry) {
    const chess::Position& position = entry.position;
    std::string wrong = read_fen(fen, needs_ply, entry);
    if (!wrong.empty()) return wrong;
    std::int16_t white_score = 0;
    if (score.starts_with('+')) score.remove_prefix(1);
    const auto [end, error] = std::from_chars(score.data(), score.data() + score.size(), white_score);
    if (error != std::errc{} || end != score.data() + score.size()) {
        return with_quoted("the score must be a whole number from -32768 to 32767", score);
    }
    if (!chess::turn_score(white_score, position.side, entry.score)) return chess::kBadScore;
    const std::optional<int> white = read_result(result);
    if (!white) return with_quoted("the result must be 1.0, 0.5 or 0.0, White's, or *", result);
    entry.result = static_cast<std::int8_t>(position.side == chess::kWhite ? *white : -*white);
    return {};
}

// A line without scores. Operations of EPD behind c9 count for nothing.
[[nodiscard]] inline std::string read_tuning_line(std::string_view line, bool needs_ply, chess::Entry& entry) {
    constexpr std::size_t kNone = std::string_view::npos;
    constexpr std::string_view kOperation = " c9 \"";
    const std::size_t operation = line.find(kOperation);
    const std::size_t begin = operation != kNone ? operation + kOperation.size() : line.find('[');
    const std::size_t end = begin == kNone ? kNone : line.find(operation != kNone ? '"' : ']', begin);
    if (end == kNone) return "a line is FEN | score | result, FEN c9 \"result\" or FEN [result]";
    const std::string_view behind = trimmed(line.substr(end + 1));
    if (!behind.empty() && (operation == kNone || behind.front() != ';'))
        return with_quoted("nothing stands behind the result", behind);
    std::string wrong = read_fen(trimmed(line.substr(0, operation != kNone ? operation : begin)), needs_ply, entry);
    if (!wrong.empty()) return wrong;
    const std::string_view word = line.substr(begin, end - begin + (operation != kNone ? 0 : 1));
    const std::optional<int> white = word == "1-0" ? 1 : word == "0-1" ? -1 : word == "1/2-1/2" ? 0 : read_result(word);
    if (!white) return with_quoted("the result must be 1-0, 1/2-1/2 or 0-1, or 1.0, 0.5 or 0.0 in brackets", word);
    entry.score = chess::kNoScore;
    entry.result = static_cast<std::int8_t>(entry.position.side == chess::kWhite ? *white : -*white);
    return {};
}

[[nodiscard]] inline std::string read_line(std::string_view line, bool needs_ply, chess::Entry& entry) {
    constexpr std::size_t kNone = std::string_view::npos;
    const std::size_t first = line.find('|');
    const std::size_t second = first == kNone ? kNone : line.find('|', first + 1);
    if (first == kNone) return read_tuning_line(line, needs_ply, entry);
    if (second == kNone || line.find('|', second + 1) != kNone) return "a line is FEN | score | result";
    return read_parts(trimmed(line.substr(0, first)), trimmed(line.substr(first + 1, second - first - 1)),
                      trimmed(line.substr(second + 1)), needs_ply, entry);
}

[[nodiscard]] inline bool next_line(chess::WalkState& state) {
    if (!state.fault.empty()) [[unlikely]]
        return false;
    const std::string_view text(reinterpret_cast<const char*>(state.bytes.data()), state.bytes.size());
    while (state.at < text.size()) {
        const std::size_t end = std::min(text.find('\n', state.at), text.size());
        std::string_view line = text.substr(state.at, end - state.at);
        if (line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
        line = trimmed(line);
        bool good = !line.empty();
        if (good) {
            const std::string wrong = read_line(line, state.demands.ply, state.entry);
            const chess::Illegal illegal = wrong.empty()                     ? chess::judged(state)
                                           : wrong == chess::kNotOneKingEach ? chess::Illegal::kKings
                                                                             : chess::Illegal::kNone;
            good = wrong.empty() && illegal == chess::Illegal::kNone;
            if (!good && !chess::leaves_out(state, illegal)) [[unlikely]] {
                state.fault = wrong.empty() ? chess::words_of(illegal) : wrong;
                state.cut = end == text.size();
                return false;
            }
        }
        state.at = std::min(end + 1, text.size());
        ++state.units;
        if (good) return true;
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
