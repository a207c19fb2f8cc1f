#include "chess/native/filters/filters.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>

#include "chess/native/board/bitboard.h"
#include "chess/native/board/position.h"
#include "chess/native/filters/pieces.h"
#include "chess/native/filters/win_draw_loss.h"
#include "random/philox_many.h"

namespace sparsepool::chess {
namespace {

using ByPieceCount = std::array<std::uint64_t, 33>;

std::size_t piece_count_of(const Record& record) { return std::min(count_squares(record.occupied), 32U); }

// The wanted share of each piece count, in proportion.
double wanted(const std::vector<double>& given, std::size_t count) {
    if (!given.empty()) return given[count];
    const double distance = (static_cast<double>(count) - 16.0) / 16.0;
    return 2.0 - distance * distance;
}

// Keep probabilities min(1, alpha * ratio), ratio = wanted share / actual share. Where alpha = 1 / (largest
// ratio) the result has the wanted distribution exactly; but no count is thinned to less than `least` for it, unless
// it is not wanted at all.
ByPieceCount piece_count_thresholds(const ByPieceCount& histogram, const std::vector<double>& given, double least) {
    double total = 0.0;
    double wanted_total = 0.0;
    for (std::size_t count = 0; count < histogram.size(); ++count) {
        total += static_cast<double>(histogram[count]);
        wanted_total += wanted(given, count);
    }
    std::array<double, 33> ratio{};
    double smallest = 0.0;
    double largest = 0.0;
    for (std::size_t count = 0; count < histogram.size(); ++count) {
        if (histogram[count] == 0) continue;
        ratio[count] = total * wanted(given, count) / (wanted_total * static_cast<double>(histogram[count]));
        if (ratio[count] > 0.0) smallest = smallest == 0.0 ? ratio[count] : std::min(smallest, ratio[count]);
        largest = std::max(largest, ratio[count]);
    }
    ByPieceCount thresholds{};
    if (largest == 0.0) return thresholds;
    const double alpha = std::max(1.0 / largest, least / smallest);
    for (std::size_t count = 0; count < histogram.size(); ++count) {
        thresholds[count] = threshold_of(alpha * ratio[count]);
    }
    return thresholds;
}

// What the models of results speak of.
bool has_both(const Record& record) { return record.score != kNoScore && record.result() != kNoResult; }

bool speaks_of_checks(const std::shared_ptr<const where::Program>& condition) {
    return std::ranges::any_of(condition->instructions(), [](const where::Instruction& each) {
        return each.name != nullptr && each.name->text == "in_check";
    });
}

}  // namespace

Filter::Filter(const FilterSettings& settings, std::uint64_t seed)
    : settings_(settings),
      win_draw_loss_(WinDrawLossTables::get()),
      key_(random::key_of(seed, random::Purpose::kFilter)),
      random_threshold_(threshold_of(1.0 / (settings.random_skip + 1.0))),
      unwanted_flags_(settings.skip_in_check ? unsigned{kInCheck} : 0U),
      needs_checks_(settings.skip_in_check || std::ranges::any_of(settings.where, speaks_of_checks)),
      by_chance_(settings.chances.any()),
      draws_(settings.random_skip > 0.0 || settings.win_draw_loss || by_chance_) {}

void Filter::apply(stream::RecordBuffer& buffer, std::size_t begin, std::uint32_t first_entry, std::uint64_t epoch,
                   std::uint64_t chunk, Kept& kept) const {
    const std::span<Record> records = buffer.as<Record>().subspan(begin);
    if (draws_) {
        kept.words.resize(random::padded_words(records.size()));
        random::philox_many(counter_of(first_entry, chunk, epoch), key_, records.size(), kept.words.data());
    }
    run_where(records, kept);
    const std::uint32_t* words = kept.words.data();
    const bool conditions = !settings_.where.empty();
    Record* out = records.data();
    for (std::uint32_t i = 0; i < records.size(); ++i) {
        const Record record = records[i];
        bool passes = passes_fixed(record);
        if (settings_.skip_zero_placeholders) passes = passes & !is_zero_placeholder(record, kept);
        if (draws_) passes = passes & passes_random(record, words + 4 * std::size_t{i});
        if (conditions) passes = passes & (kept.holds[i] != 0);
        *out = record;
        out += passes ? 1 : 0;
        if ((settings_.piece_count || kept.numbers) && passes) kept.entries.push_back(first_entry + i);
    }
    buffer.shrink(begin + static_cast<std::size_t>(out - records.data()));
}

void Filter::thin_out(stream::RecordBuffer& buffer, std::uint64_t epoch, std::uint64_t chunk,
                      std::vector<std::uint32_t>& kept) const {
    const std::span<Record> records = buffer.as<Record>();
    ByPieceCount histogram{};
    for (const Record& record : records) ++histogram[piece_count_of(record)];
    const ByPieceCount thresholds =
        piece_count_thresholds(histogram, settings_.piece_count_wanted, settings_.piece_count_least);
    std::size_t count = 0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
        const std::uint64_t threshold = thresholds[piece_count_of(records[i])];
        if (random::philox(counter_of(kept[i], chunk, epoch), key_)[kPieceCount] >= threshold) continue;
        records[count] = records[i];
        kept[count++] = kept[i];
    }
    buffer.shrink(count);
    kept.resize(count);
}

random::Counter Filter::counter_of(std::uint32_t entry, std::uint64_t chunk, std::uint64_t epoch) {
    return {entry, static_cast<std::uint32_t>(chunk), static_cast<std::uint32_t>(epoch), 0};
}

// nnue-pytorch's rule, which is asked about every entry of the chunk in its order.
bool Filter::is_zero_placeholder(const Record& record, Kept& kept) {
    const bool follows = record.ply > kept.last_ply && kept.last_score != kNoScore;
    const bool decided = record.result() != 0 && record.result() != kNoResult;
    const bool found = follows && std::abs(kept.last_score) > 100 && decided && record.score == 0;
    kept.last_ply = record.ply;
    if (record.score != kNoScore && !found) kept.last_score = record.score;
    return found;
}

// All conditions are worked out: which of them fails is as good as random, and guessing wrong costs more.
bool Filter::passes_fixed(const Record& record) const {
    const bool no_score = record.score == kNoScore;
    const bool promotes = Move{record.move}.type() == MoveType::kPromotion;
    return ((no_score & (settings_.skip_no_score | (record.result() == kNoResult))) |
            (record.ply <= settings_.skip_ply_up_to) | ((record.flags & unwanted_flags_) != 0) |
            (settings_.skip_promotions & promotes) | (settings_.skip_captures && takes(record))) == 0;
}

bool Filter::passes_random(const Record& record, const std::uint32_t* words) const {
    bool passes = words[kRandomSkip] < random_threshold_;
    if (by_chance_) passes = passes & (words[kChance] < threshold_of(settings_.chances.of(record)));
    if (!settings_.win_draw_loss || !has_both(record)) return passes;
    return passes & win_draw_loss_.keeps(words[kWinDrawLoss], record.ply, record.score, record.result());
}

void Filter::run_where(std::span<const Record> records, Kept& kept) const {
    if (settings_.where.empty()) return;
    kept.holds.assign(records.size(), 1);
    kept.passes.resize(records.size());
    for (const auto& condition : settings_.where) {
        condition->run(records, kept.registers, kept.passes.data());
        for (std::size_t i = 0; i < records.size(); ++i) kept.holds[i] &= kept.passes[i];
    }
}

}  // namespace sparsepool::chess
