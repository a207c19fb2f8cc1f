#include "rows/native/source.h"

#include <algorithm>
#include <utility>

#include "rows/native/batch/writer.h"

namespace sparsepool::rows {

RowSource::RowSource(std::vector<std::shared_ptr<RowReader>> readers, const RowShape& shape, const Layout& layout)
    : readers_(std::move(readers)), first_chunks_{0}, shape_(shape), layout_(layout) {
    for (const auto& reader : readers_) first_chunks_.push_back(first_chunks_.back() + reader->num_chunks());
}

std::string RowSource::name() const {
    std::string names;
    for (const auto& reader : readers_) names += (names.empty() ? "" : ", ") + reader->name();
    return names.empty() ? "no file" : names;
}

bool RowSource::in_file_order() const {
    return std::ranges::any_of(readers_, [](const auto& reader) { return reader->in_file_order(); });
}

void RowSource::compare_with(stream::ChunkSums sums) {
    for (std::size_t i = 0; i < readers_.size(); ++i) {
        readers_[i]->compare_with(sums.subrange(first_chunks_[i], readers_[i]->num_chunks()));
    }
}

void RowSource::decode(std::span<stream::ChunkRead> chunks) const {
    for (stream::ChunkRead& chunk : chunks) {
        const auto next_reader = std::ranges::upper_bound(first_chunks_, chunk.chunk);
        const auto reader = static_cast<std::size_t>(next_reader - first_chunks_.begin()) - 1;
        const std::size_t reader_chunk = chunk.chunk - first_chunks_[reader];
        RowReader::Read read = readers_[reader]->read(reader_chunk, shape_, chunk.records);
        chunk.entries = read.rows;
        chunk.fault = std::move(read.fault);
        chunk.skipped = std::move(read.skipped);
    }
}

std::unique_ptr<stream::BatchWriter> RowSource::batch_writer() const {
    return std::make_unique<RowBatchWriter>(layout_, shape_);
}

}  // namespace sparsepool::rows
