#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "chess/native/board/position.h"
#include "chess/native/record.h"

namespace sparsepool::chess {

// Turns entries into the bytes of a file of one format. Not for two threads at once.
class EntryWriter {
  public:
    virtual ~EntryWriter() = default;
    EntryWriter() = default;
    EntryWriter(const EntryWriter&) = delete;
    EntryWriter& operator=(const EntryWriter&) = delete;

    // Adds an entry. Returns why it can't be stored (then nothing has changed), or an empty text. Parts that a format
    // has no room for are dropped without a fault.
    [[nodiscard]] virtual std::string add(const Entry& entry) = 0;

    // Says that the next entries come from another record, line, game or chain of their source.
    virtual void begin_unit() {}

    // Ends a game or chunk that is begun. More entries may be added.
    virtual void finish() = 0;

    // Returns the bytes that were completed since the last call.
    [[nodiscard]] std::vector<std::uint8_t> take() { return std::exchange(output_, {}); }

    [[nodiscard]] std::uint64_t entries() const { return entries_; }

    // Returns what was written otherwise than the entries have it, as descriptions with numbers of entries.
    [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> changes() const;

  protected:
    // Counts an entry without a score. For formats whose other readers take the mark for a score.
    void count_unscored(const Entry& entry) { unscored_ += entry.score == kNoScore ? 1 : 0; }

    // Counts the entry's missing parts that the format can't mark as missing, and a clock beyond `max_clock`.
    // `markable`: mask of EntryPart that the format can mark; this and max_clock are constants of a format.
    void count_changes(const Entry& entry, unsigned markable, unsigned max_clock) {
        const unsigned substituted = entry.missing_parts & ~markable;
        if (substituted == 0 && entry.position.rule50 <= max_clock) [[likely]]
            return;
        for (unsigned i = 0; i < substituted_.size(); ++i) substituted_[i] += substituted >> i & 1U;
        clamped_clocks_ += entry.position.rule50 > max_clock ? 1 : 0;
        max_clock_ = max_clock;
    }

    std::vector<std::uint8_t> output_;
    std::uint64_t entries_ = 0;

  private:
    std::array<std::uint64_t, 4> substituted_{};  // by bit of EntryPart
    std::uint64_t clamped_clocks_ = 0;
    std::uint64_t unscored_ = 0;
    unsigned max_clock_ = 0;
};

}  // namespace sparsepool::chess
