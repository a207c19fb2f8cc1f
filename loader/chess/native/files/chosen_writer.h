#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "chess/native/files/writer.h"

namespace sparsepool::chess {

// Hands the entries on that were chosen, by their number: chosen[i] != 0. Entries behind the last are not.
class ChosenWriter final : public EntryWriter {
  public:
    ChosenWriter(EntryWriter& writer, std::vector<std::uint8_t> chosen) : writer_(writer), chosen_(std::move(chosen)) {}

    [[nodiscard]] std::string add(const Entry& entry) override {
        const std::uint64_t number = entries_++;
        return number < chosen_.size() && chosen_[number] != 0 ? writer_.add(entry) : std::string();
    }
    void finish() override {}

  private:
    EntryWriter& writer_;
    std::vector<std::uint8_t> chosen_;
};

}  // namespace sparsepool::chess
