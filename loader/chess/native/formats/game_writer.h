#pragma once

#include <cstdint>
#include <vector>

#include "chess/native/files/writer.h"

namespace sparsepool::chess {

// Writes games: an entry that follows from the one before continues its game, any other begins one.
class GameWriter : public EntryWriter {
  public:
    [[nodiscard]] std::string add(const Entry& entry) final;
    void finish() final;

  private:
    // Why an entry can't be stored, and why a game can't begin with it; null if it can.
    [[nodiscard]] virtual const char* find_entry_problem(const Entry& entry) const = 0;
    [[nodiscard]] virtual const char* find_start_problem(const Entry& entry) const = 0;
    virtual void begin_game(const Entry& entry) = 0;
    virtual void put_move(const Entry& entry) = 0;
    virtual void end_game(const Entry& last) = 0;

    [[nodiscard]] bool continues_game(const Entry& entry) const;

    bool open_ = false;
    Entry last_;
    Position next_;  // after it
};

// As games.h reads them.
class WordGameWriter : public GameWriter {
  private:
    [[nodiscard]] const char* find_entry_problem(const Entry& entry) const final;
    void begin_game(const Entry& entry) final;
    void put_move(const Entry& entry) final;
    void end_game(const Entry& last) final;

    virtual void put_header(std::vector<std::uint8_t>& bytes, const Entry& entry) const = 0;
    [[nodiscard]] virtual std::uint16_t word_of(const Entry& entry) const = 0;
};

}  // namespace sparsepool::chess
