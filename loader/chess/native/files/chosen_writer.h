#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "chess/native/files/writer.h"

namespace sparsepool::chess {

// Hands the entries on that were chosen, by their number: chosen[i] != 0. Entries behind the last are not. With `marks`
// the others are handed on, too, without their score.
class ChosenWriter final : public EntryWriter {
  public:
    ChosenWriter(EntryWriter& writer, std::vector<std::uint8_t> chosen, bool marks)
        : writer_(writer), chosen_(std::move(chosen)), marks_(marks) {}

    [[nodiscard]] std::string add(const Entry& entry) override {
        const std::uint64_t number = entries_++;
        if (number < chosen_.size() && chosen_[number] != 0) return writer_.add(entry);
        if (!marks_) return {};
        Entry marked = entry;
        marked.score = kNoScore;
        return writer_.add(marked);
    }
    void finish() override {}

  private:
    EntryWriter& writer_;
    std::vector<std::uint8_t> chosen_;
    bool marks_;
};

}  // namespace sparsepool::chess
