#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chess/native/board/position.h"
#include "chess/native/files/writer.h"

namespace sparsepool::binpack {

// Turns entries into the bytes of a binpack file. An entry whose position is that after the last move continues the
// chain; any other begins a chain. A chunk of 1 MiB or more ends before the next chain. The reference writer has the
// same rules, so reading and writing a file gives the same bytes. Not for two threads at once.
class Writer final : public chess::EntryWriter {
  public:
    [[nodiscard]] std::string add(const chess::Entry& entry) override;

    // Ends the last chunk. More entries may be added: they begin another chunk.
    void finish() override;

    [[nodiscard]] std::uint64_t chains() const { return chains_; }
    [[nodiscard]] std::uint64_t chunks() const { return chunks_; }

  private:
    [[nodiscard]] bool add_to_chain(const chess::Entry& entry);
    void begin_chain(const chess::Entry& entry);
    void end_chain();
    void end_chunk();
    void append_bits(unsigned value, unsigned count);
    void append_score(std::uint16_t code);

    std::vector<std::uint8_t> payload_;
    std::size_t chain_begin_ = 0;  // offset of the open chain in the payload
    bool open_ = false;
    unsigned followers_ = 0;  // entries of the open chain behind its stem
    unsigned free_bits_ = 0;  // of the payload's last byte
    chess::Entry last_;
    std::uint64_t chains_ = 0;
    std::uint64_t chunks_ = 0;
};

}  // namespace sparsepool::binpack
