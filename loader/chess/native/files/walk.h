#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chess/native/board/legality.h"
#include "chess/native/files/skipped.h"
#include "chess/native/record.h"

namespace sparsepool::chess {

// Where data stops being usable, and why.
struct Damage {
    std::uint64_t offset = 0;  // of the bytes walked through
    std::uint64_t unit = 0;    // number of the record, line or game; of an entry in its chain
    std::string reason;
    bool truncated = false;  // only that the bytes end too early
};

using CountedReason = std::pair<std::string, std::uint64_t>;

// Which entries a walk accepts.
struct ReadOptions {
    unsigned required_parts = 0;  // mask of EntryPart: an entry that lacks one of these is damage
    OnIllegal on_illegal = OnIllegal::kKeep;
    bool skips_damage = false;  // skip a unit that can't be read, if the beginning of the next unit is known
    bool checks_moves = true;   // only binpack; false: an earlier walk has checked them
    // Check the legality of every position. Otherwise only the first position of a game or chain is checked, and if
    // that is illegal, the whole game is skipped or refused.
    bool every_position = false;
};

// Returns the options for units that an earlier walk has found good: nothing is checked again.
[[nodiscard]] inline ReadOptions trusted_options(ReadOptions options) {
    options.on_illegal = OnIllegal::kKeep;
    options.skips_damage = options.checks_moves = false;
    return options;
}

// Where a walk through whole units stands. A walk may be continued by the code of another instruction set.
struct WalkState {
    std::span<const std::uint8_t> bytes;
    ReadOptions options;
    std::uint64_t offset = 0;       // of the next byte to read
    std::uint64_t units = 0;        // records, lines or games begun
    std::uint64_t entry_index = 0;  // within the game
    bool in_game = false;           // between a game's header and its end
    std::int8_t white_result = 0;   // of the game
    bool truncated = false;         // the fault is only that the bytes end too early
    std::string fault;              // at `offset`; empty: none
    SkippedTally skipped;
    Position next;  // of the game, after the move of the current entry
    Entry entry;    // the current one once `next` has said true
};

// What a format does for each instruction set.
struct WalkKernels {
    // Steps to the next entry; false at the end or at a fault. After either it stays false.
    bool (*next)(WalkState& state);
    // Writes up to `capacity` records and gives back how many; fewer only at the end or at a fault. Without `checks`
    // the flag kInCheck is never set.
    std::size_t (*read)(WalkState& state, Record* out, std::size_t capacity, bool checks);
};

[[nodiscard]] inline std::span<const std::uint8_t> span_of(std::string_view bytes) {
    return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

// Through the entries of whole units. Not for two threads at once.
class Walk {
  public:
    virtual ~Walk() = default;
    Walk() = default;
    Walk(const Walk&) = delete;
    Walk& operator=(const Walk&) = delete;

    // The next entry; null at the end or at damage.
    [[nodiscard]] virtual const Entry* next() = 0;

    // As WalkKernels has it.
    [[nodiscard]] virtual std::size_t read(Record* out, std::size_t capacity, bool checks) = 0;

    // How many more entries there are, up to damage.
    [[nodiscard]] virtual std::uint64_t count() {
        std::vector<Record> block(4096);
        std::uint64_t entries = 0;
        std::size_t count = 0;
        do {
            count = read(block.data(), block.size(), false);
            entries += count;
        } while (count == block.size());
        return entries;
    }

    [[nodiscard]] virtual std::uint64_t units() const = 0;          // begun so far
    [[nodiscard]] virtual std::uint64_t offset() const = 0;         // bytes walked through
    [[nodiscard]] virtual const SkippedTally& skipped() const = 0;  // so far
    // Entries without a score so far, by the reason; of formats that know one.
    [[nodiscard]] virtual std::vector<CountedReason> unscored() const { return {}; }
    [[nodiscard]] virtual std::optional<Damage> damage() const = 0;      // at which the walk has ended
    [[nodiscard]] virtual Damage refusal(std::string reason) const = 0;  // of the entry read last, as damage has it
};

// A walk of a format that has WalkKernels.
class UnitWalk final : public Walk {
  public:
    UnitWalk(const WalkKernels& kernels, std::string_view bytes, const ReadOptions& options) : kernels_(kernels) {
        state_.bytes = span_of(bytes);
        state_.options = options;
    }

    [[nodiscard]] const Entry* next() override { return kernels_.next(state_) ? &state_.entry : nullptr; }
    [[nodiscard]] std::size_t read(Record* out, std::size_t capacity, bool checks) override {
        return kernels_.read(state_, out, capacity, checks);
    }
    [[nodiscard]] std::uint64_t units() const override { return state_.units; }
    [[nodiscard]] std::uint64_t offset() const override { return state_.offset; }
    [[nodiscard]] const SkippedTally& skipped() const override { return state_.skipped; }
    [[nodiscard]] Damage refusal(std::string reason) const override {
        return {state_.offset, state_.units, std::move(reason), false};
    }
    [[nodiscard]] std::optional<Damage> damage() const override {
        if (state_.fault.empty()) return std::nullopt;
        return Damage{state_.offset, state_.units, state_.fault, state_.truncated};
    }

  private:
    WalkKernels kernels_;
    WalkState state_;
};

}  // namespace sparsepool::chess
