#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "chess/native/filters/chances.h"
#include "chess/native/filters/where/program.h"
#include "chess/native/filters/win_draw_loss.h"
#include "chess/native/record.h"
#include "random/philox.h"
#include "stream/records.h"

// Which entries the stream skips: a pure function of (seed, epoch, chunk, entry) and the chunk (I1).
namespace sparsepool::chess {

// loader/chess/filters says what each means.
struct FilterSettings {
    bool skip_no_score = true;
    bool skip_zero_placeholders = false;
    bool skip_in_check = false;
    bool skip_captures = false;
    bool skip_promotions = false;
    std::int64_t skip_ply_up_to = -1;
    double random_skip = 0.0;
    bool win_draw_loss = false;
    bool piece_count = false;
    double piece_count_least = 0.1;
    std::vector<double> piece_count_wanted;                    // [33], shares in proportion; empty: the usual ones
    std::vector<std::shared_ptr<const where::Program>> where;  // all must hold
    Chances chances;
};

class Filter {
  public:
    Filter(const FilterSettings& settings, std::uint64_t seed);

    [[nodiscard]] bool needs_checks() const { return needs_checks_; }
    [[nodiscard]] bool balances_piece_counts() const { return settings_.piece_count; }

    // What the filters remember of a chunk, and memory that is used again.
    struct ChunkState {
        int last_ply = -1;                   // of the previous entry
        int last_score = kNoScore;           // the last one that was neither missing nor a placeholder
        bool keeps_entries = false;          // whether the caller needs `entries`
        std::vector<std::uint32_t> entries;  // indices of kept entries, for the caller or the filter by piece count
        std::vector<std::uint32_t> random_words;
        std::vector<double> registers;
        std::vector<std::uint8_t> passes_conditions;  // by record: whether all of `where` hold
        std::vector<std::uint8_t> passes_one;         // by record: whether one condition holds
    };

    // Keeps, in place and in order, the records of a chunk from index `begin` on that pass all filters but the one by
    // piece count. The record at `begin` is entry `first_entry` of the chunk.
    void apply(stream::RecordBuffer& records, std::size_t begin, std::uint32_t first_entry, std::uint64_t epoch,
               std::uint64_t chunk, ChunkState& state) const;

    // Filters a full chunk, which has passed the other filters, by piece count. `entries` are the indices of its
    // records, before and after.
    void balance_piece_counts(stream::RecordBuffer& records, std::uint64_t epoch, std::uint64_t chunk,
                              std::vector<std::uint32_t>& entries) const;

  private:
    // The random words of an entry, one for each random filter.
    enum Word : unsigned { kRandomSkip, kWinDrawLoss, kPieceCount, kChance };

    [[nodiscard]] static random::Counter counter_of(std::uint32_t entry, std::uint64_t chunk, std::uint64_t epoch);
    [[nodiscard]] static bool is_zero_placeholder(const Record& record, ChunkState& state);
    [[nodiscard]] bool passes_fixed(const Record& record) const;
    [[nodiscard]] bool passes_random(const Record& record, const std::uint32_t* random_words) const;
    void run_conditions(std::span<const Record> records, ChunkState& state) const;

    FilterSettings settings_;
    const WinDrawLossTables& win_draw_loss_;
    random::Key key_;
    std::uint64_t random_threshold_;
    unsigned skipped_flags_;
    bool needs_checks_;
    bool uses_chances_;
    bool draws_words_;  // whether any filter but the one by piece count is random
};

// The filters of one chunk while it is decoded block by block: a block is filtered while it is in the cache.
class ChunkFilter {
  public:
    // `keeps_entries`: whether kept_entries() is needed.
    ChunkFilter(const Filter& filter, std::uint64_t epoch, std::uint64_t chunk, bool keeps_entries = false)
        : filter_(filter), epoch_(epoch), chunk_(chunk) {
        state_.keeps_entries = keeps_entries;
    }

    // Filters the records that were appended since the last call, which are the chunk's next entries.
    void filter_block(stream::RecordBuffer& records) {
        const auto added = static_cast<std::uint32_t>(records.size() - size_);
        filter_.apply(records, size_, entries_, epoch_, chunk_, state_);
        entries_ += added;
        size_ = records.size();
    }

    void finish(stream::RecordBuffer& records) {
        if (filter_.balances_piece_counts()) filter_.balance_piece_counts(records, epoch_, chunk_, state_.entries);
    }

    [[nodiscard]] std::uint32_t entries() const { return entries_; }  // read so far
    [[nodiscard]] const std::vector<std::uint32_t>& kept_entries() const { return state_.entries; }

  private:
    const Filter& filter_;
    std::uint64_t epoch_;
    std::uint64_t chunk_;
    std::uint32_t entries_ = 0;
    std::size_t size_ = 0;  // number of kept records
    Filter::ChunkState state_;
};

}  // namespace sparsepool::chess
