#include "formats/text/native/codec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "chess/native/board/fen.h"
#include "chess/native/coding/storable.h"
#include "chess/native/coding/walking.h"

namespace sparsepool::text {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";
constexpr std::size_t kShown = 40;  // characters of what is wrong
constexpr std::array<std::array<std::string_view, 4>, 3> kResults = {{
    {"0.0", "[0.0]", "0", "[0]"},
    {"0.5", "[0.5]", "1/2", "[1/2]"},
    {"1.0", "[1.0]", "1", "[1]"},
}};

std::string_view trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string quoted(std::string_view text) {
    std::string quotes(1, '\'');
    quotes.append(text.substr(0, kShown)).push_back('\'');
    return quotes;
}

std::string read_parts(std::string_view fen, std::string_view score, std::string_view result, bool needs_ply,
                       chess::Entry& entry) {
    chess::Position& position = entry.position;
    std::optional<unsigned> number;
    std::string wrong = chess::parse_fen(fen, 2, position, number);
    if (!wrong.empty()) return wrong;
    if (!number && needs_ply) return "the FEN has no move number: no ply is known, and a filter needs it";
    if (const char* fault = chess::number_fault(number.value_or(1), false)) return fault;
    entry.ply = chess::ply_of(number.value_or(0), position.side);
    entry.move = {};
    std::int16_t white_score = 0;
    if (score.starts_with('+')) score.remove_prefix(1);
    const auto [end, error] = std::from_chars(score.data(), score.data() + score.size(), white_score);
    if (error != std::errc{} || end != score.data() + score.size()) {
        return "the score must be a whole number from -32768 to 32767, not " + quoted(score);
    }
    if (!chess::turn_score(white_score, position.side, entry.score)) return chess::kBadScore;
    const auto known = std::ranges::find_if(
        kResults, [&](const auto& words) { return std::ranges::find(words, result) != words.end(); });
    if (known == kResults.end()) return "the result must be 1.0, 0.5 or 0.0, White's, not " + quoted(result);
    const int white = static_cast<int>(known - kResults.begin()) - 1;
    entry.result = static_cast<std::int8_t>(position.side == chess::kWhite ? white : -white);
    return {};
}

std::string read_line(std::string_view line, bool needs_ply, chess::Entry& entry) {
    if (std::ranges::count(line, '|') != 2) return "a line is FEN | score | result";
    const std::size_t first = line.find('|');
    const std::size_t second = line.find('|', first + 1);
    return read_parts(trimmed(line.substr(0, first)), trimmed(line.substr(first + 1, second - first - 1)),
                      trimmed(line.substr(second + 1)), needs_ply, entry);
}

// Letters of a line may be no text at all.
std::string printable(std::string words) {
    std::ranges::replace_if(words, [](char letter) { return letter < ' ' || letter > '~'; }, '?');
    return words;
}

bool next_line(chess::WalkState& state) {
    if (!state.fault.empty()) return false;
    const std::string_view text(reinterpret_cast<const char*>(state.bytes.data()), state.bytes.size());
    while (state.at < text.size()) {
        const std::size_t end = std::min(text.find('\n', state.at), text.size());
        const std::string_view line = trimmed(text.substr(state.at, end - state.at));
        if (!line.empty()) state.fault = printable(read_line(line, state.needs_ply, state.entry));
        if (!state.fault.empty()) {
            state.cut = end == text.size();
            return false;
        }
        state.at = std::min(end + 1, text.size());
        ++state.units;
        if (!line.empty()) return true;
    }
    return false;
}

class TextLines final : public Units {
  public:
    [[nodiscard]] const char* word() const override { return "line"; }
    [[nodiscard]] std::size_t whole(std::string_view bytes, std::size_t) const override {
        return bytes.find_last_of('\n') + 1;  // npos + 1 is 0
    }
    [[nodiscard]] std::uint64_t count(std::string_view whole) const override {
        return static_cast<std::uint64_t>(std::ranges::count(whole, '\n'));
    }
};

class Writer final : public chess::EntryWriter {
  public:
    [[nodiscard]] std::string add(const chess::Entry& entry) override {
        std::int16_t white_score = 0;
        if (const char* wrong = chess::why_no_white_score(entry, white_score)) return wrong;
        char line[chess::kMaxFen + 16];
        char* end = chess::write_fen(entry.position, entry.ply / 2U + 1, line);
        end = std::ranges::copy(std::string_view(" | "), end).out;
        end = std::to_chars(end, end + 6, white_score).ptr;
        end = std::ranges::copy(std::string_view(" | "), end).out;
        const auto result = static_cast<std::size_t>(chess::white_result(entry) + 1);
        end = std::ranges::copy(kResults.data()[result][0], end).out;
        *end++ = '\n';
        done_.insert(done_.end(), line, end);
        ++entries_;
        return {};
    }
    void finish() override {}
};

class TextCodec final : public chess::Codec {
  public:
    [[nodiscard]] const Units& units() const override { return units_; }
    [[nodiscard]] chess::WalkKernels kernels() const override { return {next_line, chess::read_entries<next_line>}; }
    [[nodiscard]] std::unique_ptr<chess::EntryWriter> make_writer() const override {
        return std::make_unique<Writer>();
    }

  private:
    TextLines units_;
};

}  // namespace

const chess::Codec& codec() {
    static const TextCodec instance;
    return instance;
}

}  // namespace sparsepool::text
