#pragma once

#include <cstdint>
#include <vector>

#include "random/philox.h"
#include "stream/record_buffer.h"

// Which entries are left out of the stream: a pure function of (seed, epoch, chunk, entry) and the chunk (I1).
namespace sparsepool::stream {

// loader/config.py says what each means.
struct FilterSettings {
    bool skip_no_score = true;
    bool skip_in_check = false;
    bool skip_captures = false;
    bool skip_promotions = false;
    std::int64_t skip_ply_up_to = -1;
    double random_skip = 0.0;
    bool win_draw_loss = false;
    bool piece_count = false;
};

inline constexpr std::int16_t kNoScore = 32002;

class Filter {
  public:
    Filter(const FilterSettings& settings, std::uint64_t seed);

    // Keeps, in place and in order, what passes of a whole chunk. `kept` is scratch.
    void apply(RecordBuffer& records, std::uint64_t epoch, std::uint64_t chunk, std::vector<std::uint32_t>& kept) const;

  private:
    // Random words of an entry, one for each choice.
    enum Word : unsigned { kRandomSkip, kWinDrawLoss, kPieceCount };

    [[nodiscard]] random::Words words_of(std::uint32_t entry, std::uint64_t chunk, std::uint64_t epoch) const;
    [[nodiscard]] bool passes_fixed(const chess::Record& record) const;
    [[nodiscard]] bool passes_random(const chess::Record& record, random::Words words) const;

    FilterSettings settings_;
    random::Key key_;
    std::uint64_t random_threshold_;
    bool draws_;  // whether any choice but the piece count's is random
};

}  // namespace sparsepool::stream
