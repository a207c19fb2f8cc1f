#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "chess/native/batch/layout.h"
#include "chess/native/features/feature_set.h"
#include "chess/native/filters/filters.h"
#include "chess/native/reader.h"
#include "stream/source.h"

namespace sparsepool::chess {

// Positions for the stream: read by readers of any formats, filtered, and written into batches. The chunks of the
// readers are numbered one reader after the other.
class PositionSource final : public stream::Source {
  public:
    PositionSource(std::vector<std::shared_ptr<PositionReader>> readers, std::shared_ptr<const FeatureSet> set,
                   const Layout& layout, const FilterSettings& filters, std::uint64_t seed);

    [[nodiscard]] std::size_t record_size() const override { return sizeof(Record); }
    [[nodiscard]] std::size_t num_chunks() const override { return begins_.back(); }
    [[nodiscard]] std::uint32_t batch_size() const override { return layout_.batch_size; }
    [[nodiscard]] std::size_t slot_bytes() const override { return layout_.slot_bytes; }
    [[nodiscard]] std::string name() const override;
    [[nodiscard]] std::size_t chunks_per_task() const override;
    [[nodiscard]] bool in_file_order() const override;
    void compare_with(stream::ChunkSums sums) override;
    void decode(std::span<stream::ChunkRead> chunks) const override;
    [[nodiscard]] std::unique_ptr<stream::BatchWriter> batch_writer() const override;

  private:
    void decode_of_reader(std::size_t reader, std::span<stream::ChunkRead> chunks,
                          std::vector<ChunkFilter>& filters) const;

    std::vector<std::shared_ptr<PositionReader>> readers_;
    std::vector<std::size_t> begins_;  // the first chunk of each reader, and the number of all chunks
    std::shared_ptr<const FeatureSet> set_;
    Layout layout_;
    Filter filter_;
};

}  // namespace sparsepool::chess
