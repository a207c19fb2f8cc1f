#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "chess/native/files/writer.h"

namespace sparsepool::chess {

// Forwards entry i to another writer if chosen[i] is not 0. With `marks` the other entries are forwarded, too, without
// their score.
class ChosenWriter final : public EntryWriter {
  public:
    ChosenWriter(EntryWriter& writer, std::vector<std::uint8_t> chosen, bool marks)
        : writer_(writer), chosen_(std::move(chosen)), marks_(marks) {}

    [[nodiscard]] std::string add(const Entry& entry) override {
        const std::uint64_t index = entries_++;
        if (index < chosen_.size() && chosen_[index] != 0) return writer_.add(entry);
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
