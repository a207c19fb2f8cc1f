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
        return find_game_end(bytes, begin, false);
    }
};

class PgnWalk final : public chess::Walk {
  public:
    PgnWalk(std::string_view bytes, const chess::ReadOptions& options, const CommentSettings& settings)
        : bytes_(bytes), options_(options), settings_(settings) {}

    [[nodiscard]] const chess::Entry* next() override {
        while (!damage_) {
            if (number_ < game_.entries.size()) {
                const chess::Entry& entry = game_.entries[number_++];
                if (!options_.every_position || is_good(entry)) return &entry;
            } else if (game_.has_rest) {
                leave_rest_out();
            } else if (end_ == bytes_.size()) {
                return nullptr;
            } else {
                read_next();
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
    void read_next() {
        begin_ = end_;
        end_ = std::min(find_game_end(bytes_, begin_, true), bytes_.size());
        number_ = 0;
        const std::string_view text = bytes_.substr(begin_, end_ - begin_);
        read_game(text, options_.required_parts, settings_, game_);
        const std::uint64_t before = games_;
        games_ += game_.begun ? 1 : 0;
        chess::Damage damage{begin_ + game_.fault_at, games_, game_.fault, false};
        chess::Illegal illegal = game_.illegal;
        if (game_.fault.empty() || (game_.has_rest && can_skip(options_, chess::Illegal::kNone))) {
            if (!options_.every_position && !game_.entries.empty())
                illegal = evaluate_legality(game_.entries.front().position);
            if (illegal == chess::Illegal::kNone) {
                for (std::size_t i = 0; i < kNumNoScore; ++i) unscored_.at(i) += game_.unscored.at(i);
                return;
            }
            damage = {begin_, games_, describe(illegal), false};
        }
        if (!can_skip(options_, illegal)) {
            damage_ = std::move(damage);
        } else {
            skipped_.add_unit(illegal, damage.reason, damage.offset, games_, {begin_, end_, before},
                              game_.fault.empty() ? game_.entries.size() : count_moves(text));
        }
        game_.entries.clear();
        game_.has_rest = false;
    }

    // Leaves out what stands behind the result of a game that stays, as if that was another game.
    void leave_rest_out() {
        const std::uint64_t offset = begin_ + game_.fault_at;
        skipped_.add_unit(chess::Illegal::kNone, game_.fault, offset, games_, {offset, end_, games_},
                          count_moves(bytes_.substr(offset, end_ - offset)));
        ++games_;
        game_.has_rest = false;
    }

    [[nodiscard]] chess::Illegal evaluate_legality(const chess::Position& position) const {
        return options_.on_illegal == chess::OnIllegal::kKeep ? chess::Illegal::kNone : find_illegal(position);
    }

    // Else it is counted, or damage.
    bool is_good(const chess::Entry& entry) {
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
    std::size_t number_ = 0;  // of the next entry of the game
    Game game_;
    chess::SkippedTally skipped_;
    NoScoreCounts unscored_{};
    std::optional<chess::Damage> damage_;
};

constexpr std::size_t kColumns = 80;  // of a line, at most

const char* word_of(std::int8_t white_result) {
    if (white_result == chess::kNoResult) return "*";
    constexpr std::array kWords = {"0-1", "1/2-1/2", "1-0"};
    return kWords.data()[white_result + 1];
}

class Writer final : public chess::GameWriter {
    [[nodiscard]] const char* find_entry_problem(const chess::Entry& entry) const override {
        const bool scored = entry.score != chess::kNoScore;
        if (scored && (entry.score > chess::kMateScore || entry.score < -chess::kMateScore)) {
            return "the format has no score beyond 32000, which is mate";
        }
        char san[kMaxSan];
        chess::Move read;
        const char* end = write_san(entry.position, entry.move, san);
        const bool same =
            parse_san({san, end}, entry.position, read) == SanFault::kNone && read.word == entry.move.word;
        return same ? nullptr : "the format can't hold a move that is not legal";
    }

    [[nodiscard]] const char* find_start_problem(const chess::Entry&) const override {
        return nullptr;
    }  // a FEN holds all

    void begin_game(const chess::Entry& entry) override {
        char text[chess::kMaxFen];
        const char* end = chess::write_fen(entry.position, entry.ply / 2U + 1, text, chess::count_fen_fields(entry));
        const std::string_view fen(text, end);
        put("[Event \"?\"]\n[Result \"");
        put(word_of(chess::white_result(entry)));
        put("\"]\n");
        if (entry.position.chess960) put("[Variant \"Chess960\"]\n");
        if (fen != kStart) {
            put("[SetUp \"1\"]\n[FEN \"");
            put(fen);
            put("\"]\n");
        }
        column_ = 0;
        first_ = true;
        put("\n");
    }

    void put_move(const chess::Entry& entry) override {
        char text[std::max(kMaxSan, kMaxEngineScore) + 16];
        if (first_ || entry.position.side == chess::kWhite) {
            char* end = std::to_chars(text, text + 8, entry.ply / 2U + 1).ptr;
            put_word({text, std::ranges::copy(
                                std::string_view(first_ && entry.position.side == chess::kBlack ? "..." : "."), end)
                                .out});
        }
        put_word({text, write_san(entry.position, entry.move, text)});
        if (entry.score != chess::kNoScore) {
            text[0] = '{';
            char* end = write_engine_score(entry.score, text + 1);
            *end++ = '}';
            put_word({text, end});
        }
        first_ = false;
    }

    void end_game(const chess::Entry& last) override {
        put_word(word_of(chess::white_result(last)));
        put("\n\n");
    }

    void put(std::string_view text) { output_.insert(output_.end(), text.begin(), text.end()); }

    // Of a line, or of the next one.
    void put_word(std::string_view word) {
        const bool fits = column_ + 1 + word.size() <= kColumns;
        if (column_ != 0) put(fits ? " " : "\n");
        column_ = (column_ == 0 || !fits ? 0 : column_ + 1) + word.size();
        put(word);
    }

    std::size_t column_ = 0;
    bool first_ = false;  // move of the game
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

const chess::Codec& codec_of(const CommentSettings& settings) {
    constexpr Unit kNone = Unit::kNotSet;
    static const PgnCodec codecs[3][3] = {
        {PgnCodec({View::kNotSet, kNone}), PgnCodec({View::kNotSet, Unit::kPawns}),
         PgnCodec({View::kNotSet, Unit::kCentipawns})},
        {PgnCodec({View::kMover, kNone}), PgnCodec({View::kMover, Unit::kPawns}),
         PgnCodec({View::kMover, Unit::kCentipawns})},
        {PgnCodec({View::kWhite, kNone}), PgnCodec({View::kWhite, Unit::kPawns}),
         PgnCodec({View::kWhite, Unit::kCentipawns})},
    };
    return codecs[static_cast<std::size_t>(settings.view)][static_cast<std::size_t>(settings.unit)];
}

}  // namespace sparsepool::pgn
