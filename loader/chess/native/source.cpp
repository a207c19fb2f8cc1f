#include "chess/native/source.h"

#include <algorithm>
#include <utility>

#include "chess/native/batch/writer.h"

namespace sparsepool::chess {

PositionSource::PositionSource(std::vector<std::shared_ptr<PositionReader>> readers,
                               std::shared_ptr<const FeatureSet> set, const Layout& layout,
                               const FilterSettings& filters, std::uint64_t seed)
    : readers_(std::move(readers)), begins_{0}, set_(std::move(set)), layout_(layout), filter_(filters, seed) {
    for (const auto& reader : readers_) begins_.push_back(begins_.back() + reader->num_chunks());
}

std::string PositionSource::name() const {
    std::string names;
    for (const auto& reader : readers_) names += (names.empty() ? "" : ", ") + reader->name();
    return names.empty() ? "no file" : names;
}

std::size_t PositionSource::chunks_per_task() const {
    std::size_t most = 1;
    for (const auto& reader : readers_) most = std::max(most, reader->chunks_per_task());
    return most;
}

bool PositionSource::in_file_order() const {
    return std::ranges::any_of(readers_, [](const auto& reader) { return reader->in_file_order(); });
}

void PositionSource::compare_with(stream::ChunkSums sums) {
    for (std::size_t i = 0; i < readers_.size(); ++i) {
        readers_[i]->compare_with(sums.subrange(begins_[i], readers_[i]->num_chunks()));
    }
}

// Decodes chunks reader by reader, and filters each block while it is in the cache.
void PositionSource::decode(std::span<stream::ChunkRead> chunks) const {
    std::vector<ChunkFilter> filters;
    for (const stream::ChunkRead& chunk : chunks) filters.emplace_back(filter_, chunk.pass, chunk.chunk);
    for (std::size_t reader = 0; reader < readers_.size(); ++reader) decode_of_reader(reader, chunks, filters);
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        filters[i].finish(chunks[i].records);
        chunks[i].entries = filters[i].entries();
    }
}

// Decodes those of the chunks that one reader has.
void PositionSource::decode_of_reader(std::size_t reader, std::span<stream::ChunkRead> chunks,
                                      std::vector<ChunkFilter>& filters) const {
    std::vector<PositionReader::Reading> readings;
    std::vector<std::size_t> chunk_indices;  // of the readings
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        const bool has_chunk = begins_[reader] <= chunks[i].chunk && chunks[i].chunk < begins_[reader + 1];
        if (!has_chunk) continue;
        readings.push_back({chunks[i].chunk - begins_[reader], &chunks[i].records, {}, {}});
        chunk_indices.push_back(i);
    }
    if (readings.empty()) return;
    readers_[reader]->read(readings, filter_.needs_checks(), [&](std::size_t reading) {
        const std::size_t i = chunk_indices[reading];
        filters[i].filter_block(chunks[i].records);
    });
    for (std::size_t reading = 0; reading < readings.size(); ++reading) {
        stream::ChunkRead& chunk = chunks[chunk_indices[reading]];
        chunk.fault = std::move(readings[reading].fault);
        chunk.skipped = std::move(readings[reading].skipped);
    }
}

std::unique_ptr<stream::BatchWriter> PositionSource::batch_writer() const {
    return std::make_unique<PositionBatchWriter>(layout_, set_);
}

}  // namespace sparsepool::chess
