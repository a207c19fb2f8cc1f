#include "chess/native/filters/filters.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <span>

#include "chess/native/board/bitboard.h"
#include "chess/native/board/position.h"
#include "chess/native/filters/pieces.h"
#include "chess/native/filters/win_draw_loss.h"
#include "random/philox_many.h"

namespace sparsepool::chess {
namespace {

using ByPieceCount = std::array<std::uint64_t, 33>;

std::size_t piece_count_index(const Record& record) { return std::min(count_squares(record.occupied), 32U); }

// Returns the target share of a piece count, relative to others: as set, or else a parabola with its top at 16 pieces.
double target_share(const std::vector<double>& shares, std::size_t piece_count) {
    if (!shares.empty()) return shares[piece_count];
    const double distance = (static_cast<double>(piece_count) - 16.0) / 16.0;
    return 2.0 - distance * distance;
}

// Returns target share / actual share of each piece count; 0 for counts that do not occur.
std::array<double, 33> target_ratios(const ByPieceCount& histogram, const std::vector<double>& shares) {
    double total = 0.0;
    double target_total = 0.0;
    for (std::size_t count = 0; count < histogram.size(); ++count) {
        total += static_cast<double>(histogram[count]);
        target_total += target_share(shares, count);
    }
    std::array<double, 33> ratios{};
    for (std::size_t count = 0; count < histogram.size(); ++count) {
        if (histogram[count] == 0) continue;
        ratios[count] = total * target_share(shares, count) / (target_total * static_cast<double>(histogram[count]));
    }
    return ratios;
}

// Returns the threshold that keeps a record of each piece count with probability min(1, alpha * ratio), where ratio =
// target share / actual share. With alpha = 1 / (largest ratio) the kept records have the target distribution exactly;
// but alpha is larger if a count with a target share would otherwise be kept with less than `min_probability`.
ByPieceCount piece_count_thresholds(const ByPieceCount& histogram, const std::vector<double>& shares,
                                    double min_probability) {
    const std::array<double, 33> ratios = target_ratios(histogram, shares);
    double smallest = std::numeric_limits<double>::infinity();  // above 0
    double largest = 0.0;
    for (const double ratio : ratios) {
        if (ratio > 0.0) smallest = std::min(smallest, ratio);
        largest = std::max(largest, ratio);
    }
    ByPieceCount thresholds{};
    if (largest == 0.0) return thresholds;
    const double alpha = std::max(1.0 / largest, min_probability / smallest);
    for (std::size_t count = 0; count < histogram.size(); ++count) {
        thresholds[count] = threshold_of(alpha * ratios[count]);
    }
    return thresholds;
}

bool has_score_and_result(const Record& record) { return record.score != kNoScore && record.result() != kNoResult; }

bool uses_checks(const std::shared_ptr<const where::Program>& condition) {
    return std::ranges::any_of(condition->instructions(), [](const where::Instruction& instruction) {
        return instruction.name != nullptr && instruction.name->text == "in_check";
    });
}

}  // namespace

Filter::Filter(const FilterSettings& settings, std::uint64_t seed)
    : settings_(settings),
      win_draw_loss_(WinDrawLossTables::get()),
      key_(random::key_of(seed, random::Purpose::kFilter)),
      random_threshold_(threshold_of(1.0 / (settings.random_skip + 1.0))),
      skipped_flags_(settings.skip_in_check ? unsigned{kInCheck} : 0U),
      needs_checks_(settings.skip_in_check || std::ranges::any_of(settings.where, uses_checks)),
      uses_chances_(settings.chances.any()),
      draws_words_(settings.random_skip > 0.0 || settings.win_draw_loss || uses_chances_) {}

void Filter::apply(stream::RecordBuffer& buffer, std::size_t begin, std::uint32_t first_entry, std::uint64_t epoch,
                   std::uint64_t chunk, ChunkState& state) const {
    const std::span<Record> records = buffer.as<Record>().subspan(begin);
    if (draws_words_) {
        state.random_words.resize(random::padded_words(records.size()));
        random::philox_many(counter_of(first_entry, chunk, epoch), key_, records.size(), state.random_words.data());
    }
    run_conditions(records, state);
    const std::uint32_t* random_words = state.random_words.data();
    const bool has_conditions = !settings_.where.empty();
    const bool keeps_entries = settings_.piece_count || state.keeps_entries;
    Record* out = records.data();
    for (std::uint32_t i = 0; i < records.size(); ++i) {
        const Record record = records[i];
        bool passes = passes_fixed(record);
        if (settings_.skip_zero_placeholders) passes = passes & !is_zero_placeholder(record, state);
        if (draws_words_) passes = passes & passes_random(record, random_words + 4 * std::size_t{i});
        if (has_conditions) passes = passes & (state.passes_conditions[i] != 0);
        *out = record;
        out += passes ? 1 : 0;
        if (keeps_entries && passes) state.entries.push_back(first_entry + i);
    }
    buffer.shrink(begin + static_cast<std::size_t>(out - records.data()));
}

void Filter::balance_piece_counts(stream::RecordBuffer& buffer, std::uint64_t epoch, std::uint64_t chunk,
                                  std::vector<std::uint32_t>& entries) const {
    const std::span<Record> records = buffer.as<Record>();
    ByPieceCount histogram{};
    for (const Record& record : records) ++histogram[piece_count_index(record)];
    const ByPieceCount thresholds =
        piece_count_thresholds(histogram, settings_.piece_count_wanted, settings_.piece_count_least);
    std::size_t num_kept = 0;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const std::uint64_t threshold = thresholds[piece_count_index(records[i])];
        const std::uint32_t random_word = random::philox(counter_of(entries[i], chunk, epoch), key_)[kPieceCount];
        if (random_word >= threshold) continue;
        records[num_kept] = records[i];
        entries[num_kept] = entries[i];
        ++num_kept;
    }
    buffer.shrink(num_kept);
    entries.resize(num_kept);
}

random::Counter Filter::counter_of(std::uint32_t entry, std::uint64_t chunk, std::uint64_t epoch) {
    return {entry, static_cast<std::uint32_t>(chunk), static_cast<std::uint32_t>(epoch), 0};
}

// Whether a score of 0 stands for a missing score, by nnue-pytorch's rule: the game is decided, and the last score of
// it was clear. Must be called for every entry of the chunk, in order.
bool Filter::is_zero_placeholder(const Record& record, ChunkState& state) {
    const bool continues_game = record.ply > state.last_ply && state.last_score != kNoScore;
    const bool is_decided = record.result() != 0 && record.result() != kNoResult;
    const bool is_placeholder = continues_game && std::abs(state.last_score) > 100 && is_decided && record.score == 0;
    state.last_ply = record.ply;
    if (record.score != kNoScore && !is_placeholder) state.last_score = record.score;
    return is_placeholder;
}

// Evaluates all conditions without branches: which of them fails is as good as random, and mispredicted branches cost
// more.
bool Filter::passes_fixed(const Record& record) const {
    const bool has_no_score = record.score == kNoScore;
    const bool has_no_label = has_no_score & (record.result() == kNoResult);
    const bool is_promotion = Move{record.move}.type() == MoveType::kPromotion;
    const bool is_early = record.ply <= settings_.skip_ply_up_to;
    const bool has_skipped_flag = (record.flags & skipped_flags_) != 0;
    const bool is_skipped_capture = settings_.skip_captures && is_plain_capture(record);
    return !(has_no_label | (has_no_score & settings_.skip_no_score) | is_early | has_skipped_flag |
             (is_promotion & settings_.skip_promotions) | is_skipped_capture);
}

bool Filter::passes_random(const Record& record, const std::uint32_t* random_words) const {
    bool passes = random_words[kRandomSkip] < random_threshold_;
    if (uses_chances_) passes = passes & (random_words[kChance] < threshold_of(settings_.chances.of(record)));
    if (!settings_.win_draw_loss || !has_score_and_result(record)) return passes;
    return passes & win_draw_loss_.keeps(random_words[kWinDrawLoss], record.ply, record.score, record.result());
}

// Evaluates all conditions of `where` for the records.
void Filter::run_conditions(std::span<const Record> records, ChunkState& state) const {
    if (settings_.where.empty()) return;
    state.passes_conditions.assign(records.size(), 1);
    state.passes_one.resize(records.size());
    for (const auto& condition : settings_.where) {
        condition->run(records, state.registers, state.passes_one.data());
        for (std::size_t i = 0; i < records.size(); ++i) state.passes_conditions[i] &= state.passes_one[i];
    }
}

}  // namespace sparsepool::chess
