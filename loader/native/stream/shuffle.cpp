#include "stream/shuffle.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

namespace sparsepool::stream {
namespace {

// Runs between a prefetch and its use. Each run writes one record to every lane, and no hardware prefetcher follows so
// many streams.
constexpr std::uint32_t kPrefetchRuns = 8;

}  // namespace

Shuffle::Shuffle(std::optional<EntryOrder> order, const std::vector<LoadedChunk>& chunks, RecordBuffer& window)
    : order_(std::move(order)), first_records_{0}, first_bytes_{0} {
    for (const LoadedChunk& chunk : chunks) {
        first_records_.push_back(first_records_.back() + chunk.records.size());
        first_bytes_.push_back(first_bytes_.back() + chunk.records.num_bytes());
    }
    window.resize_to_overwrite(first_records_.back());
    window.resize_bytes(first_bytes_.back());
    if (!order_) {
        parts.count = chunks.size();
        return;
    }
    is_measuring_ = window.record_size() == 0;
    runs_per_part_ = std::max(1U, kPartEntries / order_->num_lanes());
    parts.count = (order_->num_runs() + runs_per_part_ - 1) / runs_per_part_;
}

bool Shuffle::start_next_round(RecordBuffer& window) {
    if (!is_measuring_) return false;
    is_measuring_ = false;
    std::inclusive_scan(window.ends(), window.ends() + window.size(), window.ends());  // sizes become ends
    parts = {parts.count, 0, 0};
    return true;
}

void Shuffle::run(std::size_t part, const std::vector<LoadedChunk>& chunks, RecordBuffer& window,
                  RunBuffer& buffer) const {
    if (!order_) {
        copy_chunk(part, chunks[part].records, window);
    } else if (is_measuring_) {
        measure_records(part, chunks, window, buffer);
    } else if (window.record_size() == 0) {
        copy_unsized(part, chunks, window, buffer);
    } else if (window.record_size() == 32) {
        copy_sized<32>(part, chunks, window, buffer);  // a copy of two registers
    } else {
        copy_sized<0>(part, chunks, window, buffer);
    }
}

void Shuffle::copy_chunk(std::size_t index, const RecordBuffer& chunk, RecordBuffer& window) const {
    const std::uint64_t first_byte = first_bytes_[index];
    if (chunk.num_bytes() != 0) std::memcpy(window.data() + first_byte, chunk.data(), chunk.num_bytes());
    if (window.record_size() != 0) return;
    std::uint64_t* ends = window.ends() + first_records_[index];
    for (std::size_t i = 0; i < chunk.size(); ++i) ends[i] = first_byte + chunk.ends()[i];
}

// Calls visit(chunk, first, positions) for all records of a part: those of `chunk` from `first` on, whose positions in
// the shuffled window are `positions`.
template <class Visit>
void Shuffle::visit_records(std::size_t part, const std::vector<LoadedChunk>& chunks, RunBuffer& buffer,
                            const Visit& visit) const {
    const auto first_run = static_cast<std::uint32_t>(part * runs_per_part_);
    const std::uint32_t last_run = std::min(order_->num_runs(), first_run + runs_per_part_);
    std::uint64_t entry = std::uint64_t{first_run} * order_->num_lanes();
    std::size_t chunk = 0;
    for (std::uint32_t run = first_run; run < last_run; ++run) {
        std::span<const std::uint32_t> positions = order_->find_positions(run, buffer);
        while (!positions.empty()) {  // a run may reach over the ends of chunks
            while (entry >= first_records_[chunk + 1]) ++chunk;
            const std::uint64_t chunk_entries = first_records_[chunk + 1] - entry;
            const auto count = std::min<std::uint64_t>(positions.size(), chunk_entries);
            visit(chunks[chunk].records, entry - first_records_[chunk], positions.first(count));
            positions = positions.subspan(count);
            entry += count;
        }
    }
}

// Copies records of kSize bytes. 0: of any size that is the same for all records.
template <std::size_t kSize>
void Shuffle::copy_sized(std::size_t part, const std::vector<LoadedChunk>& chunks, RecordBuffer& window,
                         RunBuffer& buffer) const {
    const std::size_t size = kSize != 0 ? kSize : window.record_size();
    std::byte* out = window.data();
    visit_records(part, chunks, buffer,
                  [&](const RecordBuffer& chunk, std::uint64_t first, std::span<const std::uint32_t> positions) {
                      const std::byte* record = chunk.data() + first * size;
                      for (const std::uint32_t position : positions) {
                          std::byte* to = out + position * size;
                          std::memcpy(to, record, kSize != 0 ? kSize : size);
                          __builtin_prefetch(to + kPrefetchRuns * size, 1);
                          record += size;
                      }
                  });
}

// Writes the sizes of records that have sizes of their own.
void Shuffle::measure_records(std::size_t part, const std::vector<LoadedChunk>& chunks, RecordBuffer& window,
                              RunBuffer& buffer) const {
    std::uint64_t* sizes = window.ends();
    visit_records(part, chunks, buffer,
                  [&](const RecordBuffer& chunk, std::uint64_t first, std::span<const std::uint32_t> positions) {
                      const RecordSpan records = chunk.records(first, positions.size());
                      for (std::size_t k = 0; k < positions.size(); ++k) sizes[positions[k]] = records[k].size();
                  });
}

// Copies records that have sizes of their own, when it is known where each ends.
void Shuffle::copy_unsized(std::size_t part, const std::vector<LoadedChunk>& chunks, RecordBuffer& window,
                           RunBuffer& buffer) const {
    const std::uint64_t* ends = window.ends();
    std::byte* out = window.data();
    visit_records(part, chunks, buffer,
                  [&](const RecordBuffer& chunk, std::uint64_t first, std::span<const std::uint32_t> positions) {
                      const RecordSpan records = chunk.records(first, positions.size());
                      for (std::size_t k = 0; k < positions.size(); ++k) {
                          const std::span<const std::byte> record = records[k];
                          if (record.empty()) continue;
                          std::memcpy(out + ends[positions[k]] - record.size(), record.data(), record.size());
                      }
                  });
}

}  // namespace sparsepool::stream
