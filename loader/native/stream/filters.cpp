#include "stream/filters.h"

#include <algorithm>
#include <array>

#include "chess/bitboard.h"
#include "stream/win_draw_loss.h"

namespace sparsepool::stream {
namespace {

using ByPieceCount = std::array<std::uint64_t, 33>;

std::size_t piece_count_of(const chess::Record& record) {
    return std::min(chess::count_squares(record.occupied), 32U);
}

// A random word below this keeps an entry that is to be kept with this probability.
std::uint64_t threshold_of(double probability) {
    return static_cast<std::uint64_t>(std::clamp(probability, 0.0, 1.0) * 0x1p32);
}

// The wanted share of each piece count, in proportion.
double wanted(std::size_t count) {
    const double distance = (static_cast<double>(count) - 16.0) / 16.0;
    return 2.0 - distance * distance;
}

// Keep probabilities min(1, alpha * ratio), ratio = wanted share / actual share. Where alpha = 1 / (largest
// ratio) the result has the wanted distribution exactly; but no count is thinned to less than a tenth for it.
ByPieceCount piece_count_thresholds(const ByPieceCount& histogram) {
    double total = 0.0;
    double wanted_total = 0.0;
    for (std::size_t count = 0; count < histogram.size(); ++count) {
        total += static_cast<double>(histogram[count]);
        wanted_total += wanted(count);
    }
    std::array<double, 33> ratio{};
    double smallest = 0.0;
    double largest = 0.0;
    for (std::size_t count = 0; count < histogram.size(); ++count) {
        if (histogram[count] == 0) continue;
        ratio[count] = total * wanted(count) / (wanted_total * static_cast<double>(histogram[count]));
        smallest = smallest == 0.0 ? ratio[count] : std::min(smallest, ratio[count]);
        largest = std::max(largest, ratio[count]);
    }
    ByPieceCount thresholds{};
    if (total == 0.0) return thresholds;
    const double alpha = std::max(1.0 / largest, 0.1 / smallest);
    for (std::size_t count = 0; count < histogram.size(); ++count) {
        thresholds[count] = threshold_of(alpha * ratio[count]);
    }
    return thresholds;
}

}  // namespace

Filter::Filter(const FilterSettings& settings, std::uint64_t seed)
    : settings_(settings),
      key_(random::key_of(seed, random::Purpose::kFilter)),
      random_threshold_(threshold_of(1.0 / (settings.random_skip + 1.0))),
      draws_(settings.random_skip > 0.0 || settings.win_draw_loss) {}

void Filter::apply(RecordBuffer& buffer, std::size_t begin, std::uint32_t first_entry, std::uint64_t epoch,
                   std::uint64_t chunk, std::vector<std::uint32_t>& kept) const {
    chess::Record* out = buffer.data() + begin;
    std::uint32_t entry = first_entry;
    for (const chess::Record& record : buffer.records().subspan(begin)) {
        const std::uint32_t number = entry++;
        if (!passes_fixed(record)) continue;
        if (draws_ && !passes_random(record, words_of(number, chunk, epoch))) continue;
        *out++ = record;
        if (settings_.piece_count) kept.push_back(number);
    }
    buffer.shrink(static_cast<std::size_t>(out - buffer.data()));
}

void Filter::thin_out(RecordBuffer& buffer, std::uint64_t epoch, std::uint64_t chunk,
                      const std::vector<std::uint32_t>& kept) const {
    chess::Record* records = buffer.data();
    ByPieceCount histogram{};
    for (const chess::Record& record : buffer.records()) ++histogram[piece_count_of(record)];
    const ByPieceCount thresholds = piece_count_thresholds(histogram);
    std::size_t count = 0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
        const std::uint64_t threshold = thresholds[piece_count_of(records[i])];
        if (words_of(kept[i], chunk, epoch)[kPieceCount] < threshold) records[count++] = records[i];
    }
    buffer.shrink(count);
}

random::Words Filter::words_of(std::uint32_t entry, std::uint64_t chunk, std::uint64_t epoch) const {
    return random::philox({entry, static_cast<std::uint32_t>(chunk), static_cast<std::uint32_t>(epoch), 0}, key_);
}

bool Filter::passes_fixed(const chess::Record& record) const {
    if (settings_.skip_no_score && record.score == kNoScore) return false;
    if (record.ply <= settings_.skip_ply_up_to) return false;
    unsigned unwanted = settings_.skip_captures ? unsigned{chess::kCapture} : 0U;
    unwanted |= settings_.skip_in_check ? unsigned{chess::kInCheck} : 0U;
    unwanted |= settings_.skip_promotions ? unsigned{chess::kPromotion} : 0U;
    return (record.flags & unwanted) == 0;
}

bool Filter::passes_random(const chess::Record& record, random::Words words) const {
    if (words[kRandomSkip] >= random_threshold_) return false;
    if (!settings_.win_draw_loss) return true;
    return words[kWinDrawLoss] < threshold_of(win_draw_loss_probability(record.ply, record.score, record.result));
}

}  // namespace sparsepool::stream
