#include "chess/native/scaled_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "chess/native/filters/filters.h"

namespace sparsepool::chess {
namespace {

constexpr double kMost = 32000;

}  // namespace

std::int16_t scaled_score(std::int16_t score, double scale) {
    if (score == kNoScore) return score;
    return static_cast<std::int16_t>(std::clamp(std::nearbyint(score * scale), -kMost, kMost));
}

ScaledReader::ScaledReader(std::shared_ptr<PositionReader> reader, double scale)
    : reader_(std::move(reader)), scale_(scale) {}

void ScaledReader::read(std::span<Reading> readings, bool checks, const Appended& appended) const {
    std::vector<std::size_t> begins;  // of each reading: the first record that is not scaled yet
    for (const Reading& reading : readings) begins.push_back(reading.records->size());
    reader_->read(readings, checks, [&](std::size_t i) {
        for (Record& record : readings[i].records->as<Record>().subspan(begins[i])) {
            record.score = scaled_score(record.score, scale_);
        }
        appended(i);  // which may take records away
        begins[i] = readings[i].records->size();
    });
}

}  // namespace sparsepool::chess
