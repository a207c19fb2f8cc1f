#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "random/philox.h"

// One set of files for two streams: which of its records are for training, and which for validation.
namespace sparsepool::stream {

// A pure function of seed and index, the same for every epoch (I1), so that no record is used for both.
//
// What is split is chunks; or, if too few chunks would be left for validation and the records of a chunk are
// independent, blocks of a chunk's records. They are numbered and cut into groups of about 1 / share. One of each
// group, drawn at random, is for validation.
class Split {
  public:
    static constexpr std::size_t kMinChunks = 8;  // for validation; with fewer, chunks are split into blocks
    static constexpr std::size_t kBlockRecords = 16;

    Split() = default;  // all records belong to this stream

    // `share`: of validation, above 0, at most a half. `validation`: whether this stream is the one for validation.
    // `has_independent_records`: records of a chunk have nothing to do with one another.
    Split(double share, bool validation, bool has_independent_records, std::size_t num_chunks, std::uint64_t seed);

    // Whether both streams read the same chunks.
    [[nodiscard]] bool splits_chunks() const { return splits_chunks_; }

    // Of `num_chunks`, those that have records for this stream.
    [[nodiscard]] std::vector<std::uint32_t> chunks(std::size_t num_chunks) const;

    // Whether a record belongs to this stream. Only for chunks that have records for it.
    [[nodiscard]] bool has(std::size_t chunk, std::size_t record) const;

  private:
    [[nodiscard]] bool is_for_validation(std::uint64_t index, std::uint32_t stream) const;
    [[nodiscard]] std::uint64_t group_of(std::uint64_t index) const;
    [[nodiscard]] std::uint64_t first_index_of(std::uint64_t group) const;

    double share_ = 0.0;
    bool validation_ = false;
    bool splits_chunks_ = false;
    random::Key key_;
};

}  // namespace sparsepool::stream
