#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chess/native/board/position.h"
#include "chess/native/files/writer.h"

namespace sparsepool::binpack {

// Turns entries into the bytes of a binpack file: an entry that follows from the one before continues its
// chain, any other begins one, and a chunk is closed before the first chain after 1 MiB. The same rule as the
// reference writer's, so that reading and writing a file gives the same bytes. Not for two threads at once.
class Writer final : public chess::EntryWriter {
  public:
    [[nodiscard]] std::string add(const chess::Entry& entry) override;

    // Closes the last chunk. More entries begin another one.
    void finish() override;

    [[nodiscard]] std::uint64_t chains() const { return chains_; }
    [[nodiscard]] std::uint64_t chunks() const { return chunks_; }

  private:
    [[nodiscard]] bool add_follower(const chess::Entry& entry);
    void begin_chain(const chess::Entry& entry);
    void end_chain();
    void end_chunk();
    void put_bits(unsigned value, unsigned count);
    void put_score(std::uint16_t value);

    std::vector<std::uint8_t> payload_;
    std::size_t stem_ = 0;  // offset of the open chain in the payload
    bool open_ = false;
    unsigned followers_ = 0;
    unsigned free_bits_ = 0;  // of the payload's last byte
    chess::Entry last_;
    std::uint64_t chains_ = 0;
    std::uint64_t chunks_ = 0;
};

}  // namespace sparsepool::binpack
