#pragma once

#include <cstdint>
#include <vector>

#include "chess/native/files/writer.h"

namespace sparsepool::chess {

// Writes games. An entry whose position is that after the last entry's move continues the game; any other begins a
// game.
class GameWriter : public EntryWriter {
  public:
    [[nodiscard]] std::string add(const Entry& entry) final;
    void finish() final;

  private:
    // These return why an entry can't be stored, and why a game can't begin with it; null if it can.
    [[nodiscard]] virtual const char* find_entry_problem(const Entry& entry) const = 0;
    [[nodiscard]] virtual const char* find_start_problem(const Entry& entry) const = 0;
    virtual void begin_game(const Entry& entry) = 0;
    virtual void write_move(const Entry& entry) = 0;
    virtual void end_game(const Entry& last) = 0;

    [[nodiscard]] bool continues_game(const Entry& entry) const;

    bool open_ = false;
    Entry last_;
    Position next_;  // after the move of last_
};

// Writes games of the layout that games.h reads: a header, and two 16-bit words for each move.
class WordGameWriter : public GameWriter {
  private:
    [[nodiscard]] const char* find_entry_problem(const Entry& entry) const final;
    void begin_game(const Entry& entry) final;
    void write_move(const Entry& entry) final;
    void end_game(const Entry& last) final;

    virtual void append_header(std::vector<std::uint8_t>& bytes, const Entry& entry) const = 0;
    [[nodiscard]] virtual std::uint16_t encode_move_word(const Entry& entry) const = 0;
};

}  // namespace sparsepool::chess
