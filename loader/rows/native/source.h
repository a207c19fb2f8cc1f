#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rows/native/batch/layout.h"
#include "rows/native/reader.h"
#include "rows/native/shape.h"
#include "stream/source.h"

namespace sparsepool::rows {

// Rows of several readers for the stream, and batches of them. Chunks are numbered reader after reader.
class RowSource final : public stream::Source {
  public:
    RowSource(std::vector<std::shared_ptr<RowReader>> readers, const RowShape& shape, const Layout& layout);

    [[nodiscard]] std::size_t record_size() const override { return 0; }
    [[nodiscard]] std::size_t num_chunks() const override { return first_chunks_.back(); }
    [[nodiscard]] std::uint32_t batch_size() const override { return layout_.batch_size; }
    [[nodiscard]] std::size_t slot_bytes() const override { return layout_.slot_bytes; }
    [[nodiscard]] std::string name() const override;
    [[nodiscard]] std::size_t chunks_per_task() const override { return 1; }
    [[nodiscard]] bool in_file_order() const override;
    [[nodiscard]] bool has_independent_records() const override { return true; }
    void compare_with(stream::ChunkSums sums) override;
    void decode(std::span<stream::ChunkRead> chunks) const override;
    [[nodiscard]] std::unique_ptr<stream::BatchWriter> batch_writer() const override;

  private:
    std::vector<std::shared_ptr<RowReader>> readers_;
    std::vector<std::size_t> first_chunks_;  // number of each reader's first chunk; the number of all chunks last
    RowShape shape_;
    Layout layout_;
};

}  // namespace sparsepool::rows
