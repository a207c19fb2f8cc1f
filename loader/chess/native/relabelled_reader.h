#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "chess/native/reader.h"

namespace sparsepool::chess {

// Returns a score times `scale`, rounded to nearest even and at most 32000 (mate) in size, so that it never becomes a
// mark such as kNoScore. kNoScore itself stays.
[[nodiscard]] std::int16_t scaled_score(std::int16_t score, double scale);

// How scores and results of files differ from what their format means. The default changes nothing.
struct LabelChange {
    double scale = 1.0;        // of scores, for files whose scores have another unit
    bool flips_score = false;  // scores of positions with Black to move have the other sign: the file's view is another
    bool flips_result = false;  // likewise of results

    void apply(Record& record) const;
};

// Files of another reader, with their labels changed.
class RelabelledReader final : public PositionReader {
  public:
    RelabelledReader(std::shared_ptr<PositionReader> reader, LabelChange change);

    [[nodiscard]] std::size_t num_chunks() const override { return reader_->num_chunks(); }
    [[nodiscard]] std::string name() const override { return reader_->name(); }
    [[nodiscard]] std::size_t chunks_per_task() const override { return reader_->chunks_per_task(); }
    [[nodiscard]] bool in_file_order() const override { return reader_->in_file_order(); }
    void compare_with(stream::ChunkSums sums) override { reader_->compare_with(sums); }
    void read(std::span<Reading> readings, bool checks, const Appended& appended) const override;

  private:
    std::shared_ptr<PositionReader> reader_;
    LabelChange change_;
};

}  // namespace sparsepool::chess
