#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "chess/native/files/writer.h"

namespace sparsepool::chess {

// Forwards entries to another writer, with the scores of a list in place of their own.
class RescoringWriter final : public EntryWriter {
  public:
    RescoringWriter(EntryWriter& writer, std::span<const std::int16_t> scores) : writer_(writer), scores_(scores) {}

    [[nodiscard]] std::string add(const Entry& entry) override {
        if (next_ == scores_.size()) return "there are more entries than scores";
        Entry rescored = entry;
        rescored.score = scores_[next_];
        std::string problem = writer_.add(rescored);
        if (problem.empty()) ++next_;
        return problem;
    }

    void finish() override { writer_.finish(); }

    [[nodiscard]] std::size_t used() const { return next_; }  // scores

  private:
    EntryWriter& writer_;
    std::span<const std::int16_t> scores_;
    std::size_t next_ = 0;
};

}  // namespace sparsepool::chess
