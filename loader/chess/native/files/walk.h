#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "chess/native/board/legality.h"
#include "chess/native/record.h"

namespace sparsepool::chess {

// Where data stops being usable, and why.
struct Damage {
    std::uint64_t offset = 0;  // of the bytes walked through
    std::uint64_t unit = 0;    // number of the record, line or game
    std::string reason;
    bool cut = false;  // only that the bytes end too early
};

// What is asked of entries while they are read.
struct Demands {
    bool ply = false;  // an entry whose ply can't be known is damage
    OnIllegal on_illegal = OnIllegal::kKeep;
    // Every position is judged; else of a game or chain the first, and if that is illegal, all of them are.
    bool every = false;
};

// Where a walk through whole units stands. A walk may be continued by the code of another instruction set.
struct WalkState {
    std::span<const std::uint8_t> bytes;
    Demands demands;
    std::uint64_t at = 0;          // where the next thing to read begins
    std::uint64_t units = 0;       // records, lines or games begun
    std::uint64_t number = 0;      // of the entry within its game
    bool inside = false;           // of a game
    std::int8_t white_result = 0;  // of the game
    bool cut = false;              // the fault is only that the bytes end too early
    std::string fault;             // then `at` is its place
    IllegalTally illegal;          // of what was left out
    Position next;                 // of the game, after the move of the current entry
    Entry entry;                   // the current one once `next` has said true
};

// What a format does for each instruction set.
struct WalkKernels {
    // Steps to the next entry; false at the end or at a fault. After either it stays false.
    bool (*next)(WalkState& state);
    // Writes up to `capacity` records and gives back how many; fewer only at the end or at a fault. Without `checks`
    // the flag kInCheck is never set.
    std::size_t (*read)(WalkState& state, Record* out, std::size_t capacity, bool checks);
};

// Through the entries of whole units. Not for two threads at once.
class Walk {
  public:
    Walk(const WalkKernels& kernels, std::span<const std::uint8_t> bytes, const Demands& demands = {})
        : kernels_(kernels) {
        state_.bytes = bytes;
        state_.demands = demands;
    }

    // The next entry; null at the end or at damage.
    [[nodiscard]] const Entry* next() { return kernels_.next(state_) ? &state_.entry : nullptr; }

    [[nodiscard]] std::size_t read(Record* out, std::size_t capacity, bool checks) {
        return kernels_.read(state_, out, capacity, checks);
    }

    [[nodiscard]] std::uint64_t units() const { return state_.units; }
    [[nodiscard]] std::uint64_t at() const { return state_.at; }  // bytes walked through

    [[nodiscard]] const IllegalTally& illegal() const { return state_.illegal; }  // left out so far

    [[nodiscard]] std::optional<Damage> damage() const {
        if (state_.fault.empty()) return std::nullopt;
        return Damage{state_.at, state_.units, state_.fault, state_.cut};
    }

  private:
    WalkKernels kernels_;
    WalkState state_;
};

}  // namespace sparsepool::chess
