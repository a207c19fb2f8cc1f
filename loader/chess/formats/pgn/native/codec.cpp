#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <utility>

#include "chess/formats/pgn/native/evaluations.h"
#include "chess/formats/pgn/native/format.h"
#include "chess/formats/pgn/native/game.h"
#include "chess/formats/pgn/native/san.h"
#include "chess/native/board/fen.h"
#include "chess/native/files/codec.h"
#include "chess/native/formats/game_writer.h"
#include "chess/native/formats/mates.h"
#include "chess/native/formats/record_walk.h"
#include "chess/native/formats/storable.h"
#include "chess/native/kernels.h"
#include "common/simd.h"

namespace sparsepool::pgn {
namespace {

class PgnGames final : public chess::ScannedUnits {
  public:
    [[nodiscard]] const char* word() const override { return "game"; }
    [[nodiscard]] std::size_t find_end(std::string_view bytes, std::size_t begin) const override {
        return find_game_end(bytes, begin, false);  // behind the last game more may come
    }
};

class PgnWalk final : public chess::Walk {
  public:
    PgnWalk(std::string_view bytes, const chess::ReadOptions& options, const CommentSettings& settings)
        : bytes_(bytes), options_(options), settings_(settings) {}

    [[nodiscard]] const chess::Entry* next() override {
        while (!damage_) {
            if (next_entry_ < game_.entries.size()) {
                const chess::Entry& entry = game_.entries[next_entry_++];
                if (!options_.every_position || check_entry(entry)) return &entry;
            } else if (game_.has_trailing_text) {
                skip_trailing_text();
            } else if (end_ == bytes_.size()) {
                return nullptr;
            } else {
                read_next_game();
            }
        }
        return nullptr;
    }

    [[nodiscard]] std::size_t read(chess::Record* out, std::size_t capacity, bool checks) override {
        const auto write = simd::kernels<chess::Kernels>().write_record;
        std::size_t count = 0;
        for (; count < capacity; ++count) {
            const chess::Entry* entry = next();
            if (entry == nullptr) break;
            write(*entry, out[count]);
            if (!checks) out[count].flags &= static_cast<std::uint16_t>(~unsigned{chess::kInCheck});
        }
        return count;
    }

    [[nodiscard]] std::uint64_t units() const override { return games_; }
    [[nodiscard]] std::uint64_t offset() const override { return end_; }
    [[nodiscard]] const chess::SkippedTally& skipped() const override { return skipped_; }
    [[nodiscard]] std::vector<chess::CountedReason> unscored() const override {
        std::vector<chess::CountedReason> counts;
        for (std::size_t i = 0; i < kNumNoScore; ++i) {
            if (unscored_.at(i) != 0) counts.emplace_back(describe(static_cast<NoScore>(i)), unscored_.at(i));
        }
        return counts;
    }
    [[nodiscard]] std::optional<chess::Damage> damage() const override { return damage_; }
    [[nodiscard]] chess::Damage refusal(std::string reason) const override {
        return {begin_, games_, std::move(reason), false};
    }

  private:
    // Reads the next game. If it is bad, it is skipped, or is damage.
    void read_next_game() {
        begin_ = end_;
        end_ = std::min(find_game_end(bytes_, begin_, true), bytes_.size());
        next_entry_ = 0;
        const std::string_view text = bytes_.substr(begin_, end_ - begin_);
        read_game(text, options_.required_parts, settings_, game_);
        const std::uint64_t games_before = games_;
        if (game_.has_content) ++games_;
        if (!game_.fault.empty() && !skips_only_trailing_text()) {
            const std::uint64_t num_entries = count_moves(text);
            refuse_game(game_.illegal, game_.fault, begin_ + game_.fault_offset, games_before, num_entries);
            return;
        }
        const chess::Illegal illegal = check_first_position();
        if (illegal != chess::Illegal::kNone) {
            const std::uint64_t num_entries = game_.fault.empty() ? game_.entries.size() : count_moves(text);
            refuse_game(illegal, describe(illegal), begin_, games_before, num_entries);
            return;
        }
        for (std::size_t i = 0; i < kNumNoScore; ++i) unscored_.at(i) += game_.unscored.at(i);
    }

    // Whether a game with a fault is kept, since the fault is text behind its end that is skipped.
    [[nodiscard]] bool skips_only_trailing_text() const {
        return game_.has_trailing_text && can_skip(options_, chess::Illegal::kNone);
    }

    // Returns what is illegal about the first position, unless every position is checked when its entry is returned.
    [[nodiscard]] chess::Illegal check_first_position() const {
        if (options_.every_position || game_.entries.empty()) return game_.illegal;
        return evaluate_legality(game_.entries.front().position);
    }

    // Skips the game, or makes it the walk's damage, as the options say.
    void refuse_game(chess::Illegal illegal, const std::string& reason, std::uint64_t offset,
                     std::uint64_t games_before, std::uint64_t num_entries) {
        if (can_skip(options_, illegal)) {
            skipped_.add_unit(illegal, reason, offset, games_, {begin_, end_, games_before}, num_entries);
        } else {
            damage_ = chess::Damage{offset, games_, reason, false};
        }
        game_.entries.clear();
        game_.has_trailing_text = false;
    }

    // Skips what stands behind the result of a game that is kept, as if it was another game.
    void skip_trailing_text() {
        const std::uint64_t begin = begin_ + game_.fault_offset;
        const std::uint64_t num_entries = count_moves(bytes_.substr(begin, end_ - begin));
        skipped_.add_unit(chess::Illegal::kNone, game_.fault, begin, games_, {begin, end_, games_}, num_entries);
        ++games_;
        game_.has_trailing_text = false;
    }

    [[nodiscard]] chess::Illegal evaluate_legality(const chess::Position& position) const {
        return options_.on_illegal == chess::OnIllegal::kKeep ? chess::Illegal::kNone : find_illegal(position);
    }

    // Whether the entry's position is legal. If not, it is counted as skipped, or is damage.
    bool check_entry(const chess::Entry& entry) {
        const chess::Illegal illegal = evaluate_legality(entry.position);
        if (illegal == chess::Illegal::kNone) return true;
        if (can_skip(options_, illegal)) {
            skipped_.add_entry(illegal, describe(illegal), begin_, games_);
        } else {
            damage_ = {begin_, games_, describe(illegal), false};
        }
        return false;
    }

    std::string_view bytes_;
    chess::ReadOptions options_;
    CommentSettings settings_;
    std::size_t begin_ = 0;  // of the game
    std::size_t end_ = 0;
    std::uint64_t games_ = 0;
    std::size_t next_entry_ = 0;  // of the game
    Game game_;
    chess::SkippedTally skipped_;
    NoScoreCounts unscored_{};
    std::optional<chess::Damage> damage_;
};

constexpr std::size_t kMaxColumns = 80;  // of a line

const char* format_result(std::int8_t white_result) {
    if (white_result == chess::kNoResult) return "*";
    constexpr std::array kTokens = {"0-1", "1/2-1/2", "1-0"};
    return kTokens.data()[white_result + 1];
}

// Writes games with engine scores in comments, as 1. e4 {+0.31} e5.
class Writer final : public chess::GameWriter {
    [[nodiscard]] const char* find_entry_problem(const chess::Entry& entry) const override {
        const bool has_score = entry.score != chess::kNoScore;
        const bool is_in_range = entry.score <= chess::kMateScore && entry.score >= -chess::kMateScore;
        if (has_score && !is_in_range) return "the format has no score beyond 32000, which is mate";
        char san[kMaxSan];
        const char* const end = write_san(entry.position, entry.move, san);
        chess::Move parsed;
        const SanFault fault = parse_san({san, end}, entry.position, parsed);
        const bool is_same_move = fault == SanFault::kNone && parsed.word == entry.move.word;
        return is_same_move ? nullptr : "the format can't hold a move that is not legal";
    }

    [[nodiscard]] const char* find_start_problem(const chess::Entry&) const override {
        return nullptr;
    }  // a FEN fits all

    void begin_game(const chess::Entry& entry) override {
        char text[chess::kMaxFen];
        const char* end = chess::write_fen(entry.position, entry.ply / 2U + 1, text, chess::count_fen_fields(entry));
        const std::string_view fen(text, end);
        append("[Event \"?\"]\n[Result \"");
        append(format_result(chess::white_result(entry)));
        append("\"]\n");
        if (entry.position.chess960) append("[Variant \"Chess960\"]\n");
        if (fen != kStart) {
            append("[SetUp \"1\"]\n[FEN \"");
            append(fen);
            append("\"]\n");
        }
        append("\n");
        column_ = 0;
        is_first_move_ = true;
    }

    void write_move(const chess::Entry& entry) override {
        const bool is_white = entry.position.side == chess::kWhite;
        if (is_first_move_ || is_white) write_move_number(entry.ply / 2U + 1, is_white ? "." : "...");
        is_first_move_ = false;
        char san[kMaxSan];
        append_token({san, write_san(entry.position, entry.move, san)});
        if (entry.score != chess::kNoScore) write_score(entry.score);
    }

    void write_move_number(unsigned move_number, std::string_view dots) {
        char text[16];
        char* const digits_end = std::to_chars(text, text + 8, move_number).ptr;
        append_token({text, std::ranges::copy(dots, digits_end).out});
    }

    void write_score(std::int16_t score) {
        char text[kMaxEngineScore + 2];
        text[0] = '{';
        char* end = write_engine_score(score, text + 1);
        *end++ = '}';
        append_token({text, end});
    }

    void end_game(const chess::Entry& last) override {
        append_token(format_result(chess::white_result(last)));
        append("\n\n");
    }

    void append(std::string_view text) { output_.insert(output_.end(), text.begin(), text.end()); }

    // Appends a token to the line, behind a blank, or to a new line where it does not fit.
    void append_token(std::string_view token) {
        const bool begins_text = column_ == 0;
        const bool fits = column_ + 1 + token.size() <= kMaxColumns;
        if (!begins_text) append(fits ? " " : "\n");
        const std::size_t begin = begins_text || !fits ? 0 : column_ + 1;
        append(token);
        column_ = begin + token.size();
    }

    std::size_t column_ = 0;
    bool is_first_move_ = false;
};

class PgnCodec final : public chess::Codec {
  public:
    explicit PgnCodec(const CommentSettings& settings) : settings_(settings) {}

    [[nodiscard]] const Units& units() const override { return units_; }
    [[nodiscard]] const chess::ScannedUnits* scanned_units() const override { return &units_; }
    [[nodiscard]] bool has_games() const override { return true; }
    [[nodiscard]] bool is_text() const override { return true; }
    [[nodiscard]] bool begins_a_file(std::string_view head) const override { return begins_with_tag(head); }
    [[nodiscard]] std::unique_ptr<chess::Walk> walk(std::string_view bytes,
                                                    const chess::ReadOptions& options) const override {
        return std::make_unique<PgnWalk>(bytes, options, settings_);
    }
    [[nodiscard]] std::unique_ptr<chess::EntryWriter> make_writer() const override {
        return std::make_unique<Writer>();
    }

  private:
    CommentSettings settings_;
    PgnGames units_;
};

}  // namespace

const chess::Codec& codec() { return codec_of({}); }

// Codecs live as long as the program, so there is one for each combination of settings.
const chess::Codec& codec_of(const CommentSettings& settings) {
    constexpr std::size_t kNumUnits = 3;
    static const PgnCodec codecs[] = {
        PgnCodec({View::kNotSet, Unit::kNotSet}),     PgnCodec({View::kNotSet, Unit::kPawns}),
        PgnCodec({View::kNotSet, Unit::kCentipawns}), PgnCodec({View::kMover, Unit::kNotSet}),
        PgnCodec({View::kMover, Unit::kPawns}),       PgnCodec({View::kMover, Unit::kCentipawns}),
        PgnCodec({View::kWhite, Unit::kNotSet}),      PgnCodec({View::kWhite, Unit::kPawns}),
        PgnCodec({View::kWhite, Unit::kCentipawns}),
    };
    const auto view = static_cast<std::size_t>(settings.view);
    const auto unit = static_cast<std::size_t>(settings.unit);
    return codecs[view * kNumUnits + unit];
}

}  // namespace sparsepool::pgn
