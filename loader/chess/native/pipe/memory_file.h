#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "chess/native/files/file.h"

namespace sparsepool::chess {

// A piece that came out of a pipe, in memory: whole units, or the incomplete unit at the end.
class MemoryFile final : public EntryFile {
  public:
    // `begin`, `first_unit`: bytes and units before the piece.
    MemoryFile(std::string name, const Codec& codec, const ReadOptions& options, std::string bytes, std::uint64_t begin,
               std::uint64_t first_unit, std::string header)
        : EntryFile(std::move(name), std::nullopt, bytes.size(), codec, options, std::move(header)),
          bytes_(std::move(bytes)),
          begin_(begin),
          first_unit_(first_unit) {}

    [[nodiscard]] std::size_t num_pieces() const override { return 1; }
    [[nodiscard]] std::uint64_t offset(std::size_t) const override { return begin_; }
    [[nodiscard]] bool is_packed() const override { return false; }
    [[nodiscard]] Piece read(std::size_t) const override { return {bytes_, begin_, first_unit_, {}}; }
    [[nodiscard]] std::uint64_t whole_size() const override { return size_; }
    [[nodiscard]] stream::SourceFault fault_of(std::size_t piece, const Piece& read,
                                               const Damage& damage) const override;

  private:
    std::string bytes_;
    std::uint64_t begin_;
    std::uint64_t first_unit_;
};

}  // namespace sparsepool::chess
