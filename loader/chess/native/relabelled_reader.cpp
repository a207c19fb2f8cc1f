#include "chess/native/relabelled_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "chess/native/filters/filters.h"

namespace sparsepool::chess {
namespace {

constexpr double kMaxScore = 32000;  // mate
constexpr std::int16_t kMinScoreWithOpposite = -32767;

std::int16_t opposite_score(std::int16_t score) {
    if (score == kNoScore) return score;
    return static_cast<std::int16_t>(-std::max(score, kMinScoreWithOpposite));
}

void flip_result(Record& record) {
    const auto result = static_cast<std::int8_t>(-record.result());
    const unsigned other_flags = record.flags & ~(3U << kResultShift);
    record.flags = static_cast<std::uint16_t>(other_flags | result_bits(result) << kResultShift);
}

}  // namespace

std::int16_t scaled_score(std::int16_t score, double scale) {
    if (score == kNoScore) return score;
    return static_cast<std::int16_t>(std::clamp(std::nearbyint(score * scale), -kMaxScore, kMaxScore));
}

void LabelChange::apply(Record& record) const {
    if (scale != 1.0) record.score = scaled_score(record.score, scale);
    if ((record.flags & kBlackToMove) == 0) return;
    if (flips_score) record.score = opposite_score(record.score);
    if (flips_result) flip_result(record);
}

RelabelledReader::RelabelledReader(std::shared_ptr<PositionReader> reader, LabelChange change)
    : reader_(std::move(reader)), change_(change) {}

void RelabelledReader::read(std::span<Reading> readings, bool checks, const Appended& appended) const {
    std::vector<std::size_t> num_changed;  // records of each reading, from its first on
    for (const Reading& reading : readings) num_changed.push_back(reading.records->size());
    reader_->read(readings, checks, [&](std::size_t i) {
        for (Record& record : readings[i].records->as<Record>().subspan(num_changed[i])) change_.apply(record);
        appended(i);  // may remove records
        num_changed[i] = readings[i].records->size();
    });
}

}  // namespace sparsepool::chess
