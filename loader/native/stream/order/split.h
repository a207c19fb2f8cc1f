#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "random/philox.h"

// One set of files for two streams: which of its records are for training, and which for validations.
namespace sparsepool::stream {

// A pure function of seed and place, the same for every epoch (I1), so that no record is on both sides. Places are
// numbered and cut into runs of 1 / share; of each run one place, drawn at random, is for validations. A place is a
// chunk; or, if that would leave few chunks for validations and records may be parted, a block of a chunk's records.
class Split {
  public:
    static constexpr std::size_t kFewChunks = 8;  // for validations
    static constexpr std::size_t kBlockRecords = 16;

    Split() = default;  // everything on one side

    // `share`: of validations, above 0, at most a half. `validation`: this side. `apart`: records of a chunk have
    // nothing to do with one another.
    Split(double share, bool validation, bool apart, std::size_t num_chunks, std::uint64_t seed);

    // Whether the sides share chunks.
    [[nodiscard]] bool parts_chunks() const { return parts_chunks_; }

    // Of `num_chunks`, those that have something for this side.
    [[nodiscard]] std::vector<std::uint32_t> chunks(std::size_t num_chunks) const;

    // Whether the record is on this side; for chunks that have something for it.
    [[nodiscard]] bool has(std::size_t chunk, std::size_t record) const;

  private:
    [[nodiscard]] bool is_chosen(std::uint64_t place, std::uint32_t stream) const;
    [[nodiscard]] std::uint64_t run_of(std::uint64_t place) const;
    [[nodiscard]] std::uint64_t first_of(std::uint64_t run) const;

    double share_ = 0.0;
    bool validation_ = false;
    bool parts_chunks_ = false;
    random::Key key_;
};

}  // namespace sparsepool::stream
