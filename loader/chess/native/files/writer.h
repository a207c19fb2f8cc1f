#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "chess/native/board/position.h"

namespace sparsepool::chess {

// Turns entries into the bytes of a file of one format. Not for two threads at once.
class EntryWriter {
  public:
    virtual ~EntryWriter() = default;
    EntryWriter() = default;
    EntryWriter(const EntryWriter&) = delete;
    EntryWriter& operator=(const EntryWriter&) = delete;

    // Gives back why the entry can't be stored (then nothing has changed), or an empty text. What a format has no room
    // for is left out; that the entry reads back as another one is no fault.
    [[nodiscard]] virtual std::string add(const Entry& entry) = 0;

    // The entries that follow are of another record, line, game or chain of where they come from.
    virtual void begin_unit() {}

    // Ends what is begun. More entries may be added.
    virtual void finish() = 0;

    // The bytes that are done since the last call.
    [[nodiscard]] std::vector<std::uint8_t> take() { return std::exchange(done_, {}); }

    [[nodiscard]] std::uint64_t entries() const { return entries_; }

  protected:
    std::vector<std::uint8_t> done_;
    std::uint64_t entries_ = 0;
};

}  // namespace sparsepool::chess
