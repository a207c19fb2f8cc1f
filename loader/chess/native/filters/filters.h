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

// Which entries are left out of the stream: a pure function of (seed, epoch, chunk, entry) and the chunk (I1).
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
    [[nodiscard]] bool counts_pieces() const { return settings_.piece_count; }

    // What is remembered of a chunk, and memory to be used again.
    struct Kept {
        int last_ply = -1;                   // of the entry before
        int last_score = kNoScore;           // the last one that was neither missing nor a placeholder
        bool numbers = false;                // whether those of the entries are wanted
        std::vector<std::uint32_t> entries;  // their numbers, if they are, or the piece count's filter will need them
        std::vector<std::uint32_t> words;
        std::vector<double> registers;
        std::vector<std::uint8_t> holds;   // of each record: whether all of `where` does
        std::vector<std::uint8_t> passes;  // one condition
    };

    // Keeps, in place and in order, what passes of the records of a chunk from the `begin`-th on, all filters but the
    // piece count's. The first of them is entry `first_entry` of the chunk.
    void apply(stream::RecordBuffer& records, std::size_t begin, std::uint32_t first_entry, std::uint64_t epoch,
               std::uint64_t chunk, Kept& kept) const;

    // The piece count's filter, for a whole chunk that passed the others. `kept`: the entries' numbers, before and
    // after.
    void thin_out(stream::RecordBuffer& records, std::uint64_t epoch, std::uint64_t chunk,
                  std::vector<std::uint32_t>& kept) const;

  private:
    // Random words of an entry, one for each choice.
    enum Word : unsigned { kRandomSkip, kWinDrawLoss, kPieceCount, kChance };

    [[nodiscard]] static random::Counter counter_of(std::uint32_t entry, std::uint64_t chunk, std::uint64_t epoch);
    [[nodiscard]] static bool is_zero_placeholder(const Record& record, Kept& kept);
    [[nodiscard]] bool passes_fixed(const Record& record) const;
    [[nodiscard]] bool passes_random(const Record& record, const std::uint32_t* words) const;
    void run_where(std::span<const Record> records, Kept& kept) const;

    FilterSettings settings_;
    const WinDrawLossTables& win_draw_loss_;
    random::Key key_;
    std::uint64_t random_threshold_;
    unsigned unwanted_flags_;
    bool needs_checks_;
    bool by_chance_;
    bool draws_;  // whether any choice but the piece count's is random
};

// The filters of one chunk while it is decoded block by block: a block is filtered while it is in the cache.
class ChunkFilter {
  public:
    // `numbers`: whether `kept` will be asked.
    ChunkFilter(const Filter& filter, std::uint64_t epoch, std::uint64_t chunk, bool numbers = false)
        : filter_(filter), epoch_(epoch), chunk_(chunk) {
        kept_.numbers = numbers;
    }

    // What has been appended to `records` since the last call is the chunk's next entries.
    void block(stream::RecordBuffer& records) {
        const auto added = static_cast<std::uint32_t>(records.size() - size_);
        filter_.apply(records, size_, entries_, epoch_, chunk_, kept_);
        entries_ += added;
        size_ = records.size();
    }

    void end(stream::RecordBuffer& records) {
        if (filter_.counts_pieces()) filter_.thin_out(records, epoch_, chunk_, kept_.entries);
    }

    [[nodiscard]] std::uint32_t entries() const { return entries_; }  // seen
    [[nodiscard]] const std::vector<std::uint32_t>& kept() const { return kept_.entries; }

  private:
    const Filter& filter_;
    std::uint64_t epoch_;
    std::uint64_t chunk_;
    std::uint32_t entries_ = 0;
    std::size_t size_ = 0;  // of what was kept
    Filter::Kept kept_;
};

}  // namespace sparsepool::chess
