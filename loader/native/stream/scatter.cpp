#include "stream/scatter.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

namespace sparsepool::stream {
namespace {

// Each lane is written a record a run; no hardware follows so many streams, so the line of some runs later is asked
// for by hand.
constexpr std::uint32_t kAhead = 8;

}  // namespace

Scatter::Scatter(std::optional<EntryOrder> order, const std::vector<LoadedChunk>& chunks, RecordBuffer& window)
    : order_(std::move(order)), begins_{0}, byte_begins_{0} {
    for (const LoadedChunk& chunk : chunks) {
        begins_.push_back(begins_.back() + chunk.records.size());
        byte_begins_.push_back(byte_begins_.back() + chunk.records.num_bytes());
    }
    window.resize_to_overwrite(begins_.back());
    window.resize_bytes(byte_begins_.back());
    measuring_ = order_ && window.record_size() == 0;
    if (!order_) {
        parts.count = chunks.size();
        return;
    }
    runs_per_part_ = std::max(1U, kPartEntries / order_->lanes());
    parts.count = (order_->num_runs() + runs_per_part_ - 1) / runs_per_part_;
}

bool Scatter::next_round(RecordBuffer& window) {
    if (!measuring_) return false;
    measuring_ = false;
    std::inclusive_scan(window.ends(), window.ends() + window.size(), window.ends());
    parts = {parts.count, 0, 0};
    return true;
}

void Scatter::run(std::size_t part, const std::vector<LoadedChunk>& chunks, RecordBuffer& window,
                  EntryOrder::Scratch& scratch) const {
    if (!order_) return copy_chunk(part, chunks[part].records, window);
    switch (window.record_size()) {
        case 0: break;
        case 32: return scatter_sized<32>(part, chunks, window, scratch);  // a copy of two registers
        default: return scatter_sized<0>(part, chunks, window, scratch);
    }
    std::uint64_t* ends = window.ends();
    std::byte* bytes = window.data();
    each_run(part, chunks, scratch,
             [&](const RecordBuffer& chunk, std::uint64_t first, std::span<const std::uint32_t> places) {
                 const RecordSpan records = chunk.records(first, places.size());
                 for (std::size_t k = 0; k < places.size(); ++k) {
                     const std::span<const std::byte> record = records[k];
                     const std::uint32_t place = places[k];
                     if (measuring_) {
                         ends[place] = record.size();
                     } else if (!record.empty()) {
                         std::memcpy(bytes + ends[place] - record.size(), record.data(), record.size());
                     }
                 }
             });
}

void Scatter::copy_chunk(std::size_t part, const RecordBuffer& chunk, RecordBuffer& window) const {
    if (chunk.num_bytes() != 0) std::memcpy(window.data() + byte_begins_[part], chunk.data(), chunk.num_bytes());
    if (window.record_size() != 0) return;
    for (std::size_t i = 0; i < chunk.size(); ++i)
        window.ends()[begins_[part] + i] = byte_begins_[part] + chunk.ends()[i];
}

// put(chunk, first, places): records of the chunk from `first` on, and their places in the window.
template <class Put>
void Scatter::each_run(std::size_t part, const std::vector<LoadedChunk>& chunks, EntryOrder::Scratch& scratch,
                       const Put& put) const {
    const auto first_run = static_cast<std::uint32_t>(part * runs_per_part_);
    const std::uint32_t last_run = std::min(order_->num_runs(), first_run + runs_per_part_);
    std::uint64_t entry = std::uint64_t{first_run} * order_->lanes();
    std::size_t chunk = 0;
    for (std::uint32_t run = first_run; run < last_run; ++run) {
        const std::uint32_t count = order_->place_run(run, scratch);
        const std::uint32_t* places = scratch.places.data();
        for (std::uint32_t i = 0; i < count;) {
            while (entry >= begins_[chunk + 1]) ++chunk;
            const auto here =
                static_cast<std::uint32_t>(std::min<std::uint64_t>(count - i, begins_[chunk + 1] - entry));
            put(chunks[chunk].records, entry - begins_[chunk], std::span(places + i, here));
            i += here;
            entry += here;
        }
    }
}

// Records of kSize bytes; of 0: of any one size.
template <std::size_t kSize>
void Scatter::scatter_sized(std::size_t part, const std::vector<LoadedChunk>& chunks, RecordBuffer& window,
                            EntryOrder::Scratch& scratch) const {
    const std::size_t size = kSize != 0 ? kSize : window.record_size();
    std::byte* out = window.data();
    each_run(part, chunks, scratch,
             [&](const RecordBuffer& chunk, std::uint64_t first, std::span<const std::uint32_t> places) {
                 const std::byte* record = chunk.data() + first * size;
                 for (const std::uint32_t to : places) {
                     std::byte* place = out + to * size;
                     std::memcpy(place, record, kSize != 0 ? kSize : size);
                     __builtin_prefetch(place + kAhead * size, 1);
                     record += size;
                 }
             });
}

}  // namespace sparsepool::stream
