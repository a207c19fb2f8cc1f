#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chess/native/files/writer.h"
#include "chess/native/record.h"

// Positions as keys that are the same if and only if the positions are: pieces, side to move, castling rights with
// their rooks, and an en-passant square that a pawn can take on. Clocks and move numbers are not part of it.
namespace sparsepool::chess {

// Squares, the planes of their pieces (record.h), and the state: the low 24 bits of the last word. The others are free
// for whoever keeps keys, and not compared.
using PositionKey = std::array<std::uint64_t, 4>;

[[nodiscard]] PositionKey key_of(const Position& position);

// The same of a position whose record is there already, which is faster.
[[nodiscard]] PositionKey key_of(const Position& position, const Record& record);

[[nodiscard]] std::uint64_t hash_of(const PositionKey& key);

// first[i]: 1 if no key before keys[i] is the same, else 0.
[[nodiscard]] std::vector<std::uint8_t> first_of_keys(std::span<const PositionKey> keys);

// Takes the keys of entries, whatever else they are.
class KeyWriter final : public EntryWriter {
  public:
    [[nodiscard]] std::string add(const Entry& entry) override {
        keys_.push_back(key_of(entry.position));
        ++entries_;
        return {};
    }
    void finish() override {}

    [[nodiscard]] std::vector<PositionKey> take_keys() { return std::exchange(keys_, {}); }

  private:
    std::vector<PositionKey> keys_;
};

}  // namespace sparsepool::chess
