// From window to window: how the pipeline's windows follow one another. The mutex is held in all of this.

#include <algorithm>
#include <limits>
#include <utility>

#include "stream/pipeline.h"

namespace sparsepool::stream {

// Forgets all windows, batches and submitted slots, and loads the window of the cursor.
void Pipeline::restart(const Cursor& cursor) {
    submitted_.clear();
    pending_.clear();
    is_submitted_.assign(slots_.size(), false);
    recycle_buffers();
    shuffle_.reset();
    carried_records_.clear();
    is_window_open_ = false;
    window_fault_.reset();
    end_fault_.reset();
    cutter_.seek(cursor);
    start_loading(cursor.epoch, cursor.window);
    update_event();
}

// Leads the windows on as far as possible without waiting for a task. The phases of a window: its chunks are loaded,
// its records are shuffled, it is open and batches are cut from it, it is closed.
void Pipeline::advance_window() {
    while (!end_fault_) {
        if (shuffle_) {
            if (!shuffle_->parts.all_finished()) return;
            if (!shuffle_->start_next_round(window_records_)) open_window();
        } else if (is_window_open_) {
            if (cutter_.can_cut() || num_building_ != 0) return;
            close_window();
        } else {
            if (!loading_.parts.all_finished()) return;
            start_shuffle();
        }
    }
}

void Pipeline::start_loading(std::uint64_t epoch, std::uint64_t window) {
    loading_.epoch = epoch;
    loading_.window = window;
    loading_.chunks = chunk_order_.window(epoch, window);
    loading_.loaded.clear();
    for (std::size_t i = 0; i < loading_.chunks.size(); ++i) {
        loading_.loaded.push_back({RecordBuffer(source_->record_size()), {}, {}});
    }
    loading_.parts = {loading_.chunks.size(), 0, 0};
}

// Turns damaged chunks of the loaded window into chunks without entries. Reports them, and what was skipped of other
// chunks, in stream order.
void Pipeline::skip_damaged() {
    for (std::size_t i = 0; i < loading_.loaded.size(); ++i) {
        LoadedChunk& loaded = loading_.loaded[i];
        const std::uint32_t chunk = loading_.chunks[i].chunk;
        const bool was_reported = is_damaged_[chunk] || is_thinned_[chunk];
        if (loaded.fault && can_be_skipped(*loaded.fault)) {
            is_damaged_[chunk] = true;
            loaded.fault.reset();
        } else if (!loaded.skipped.empty()) {
            is_thinned_[chunk] = true;
        }
        if (was_reported) continue;
        for (SkippedData& data : loaded.skipped) skipped_.push_back({chunk, std::move(data)});
    }
}

// Begins to shuffle the loaded window, as far as faults leave it usable.
void Pipeline::start_shuffle() {
    skip_damaged();
    if (const SourceFault* fault = loading_.first_fault()) window_fault_ = *fault;
    // A shuffled window with a fault is useless: where its entries go depends on those missing. In file order it is
    // good up to the fault.
    bool is_usable = !window_fault_ || !settings_.shuffle;
    std::uint64_t size = 0;
    for (LoadedChunk& chunk : loading_.loaded) {
        if (!is_usable) chunk.records.clear();
        size += chunk.records.size();
        if (chunk.fault) is_usable = false;
    }
    if (size > std::numeric_limits<std::uint32_t>::max()) {
        end_stream(StreamFault::Kind::kMemory,
                   {source_->name(), std::nullopt, "a window has more than 2^32 entries: lower data.window_chunks"});
        return;
    }
    std::optional<EntryOrder> order;
    if (settings_.shuffle) {
        order.emplace(static_cast<std::uint32_t>(size), source_->batch_size(), settings_.seed, loading_.epoch,
                      loading_.window);
    }
    shuffle_.emplace(std::move(order), loading_.loaded, window_records_);
}

// Opens the shuffled window for cutting, and starts to load the next one.
void Pipeline::open_window() {
    shuffle_.reset();
    recycle_buffers();
    if (cutter_.open(window_records_.size())) {
        is_window_open_ = true;
        if (window_fault_) return;  // no window follows
        const bool is_last = loading_.window + 1 == chunk_order_.num_windows();
        if (is_last) {
            start_loading(loading_.epoch + 1, 0);
        } else {
            start_loading(loading_.epoch, loading_.window + 1);
        }
    } else if (window_fault_) {
        end_stream(StreamFault::Kind::kData, *window_fault_);
    } else {
        const std::string reason = "cursor: window " + std::to_string(loading_.window) + " of epoch " +
                                   std::to_string(loading_.epoch) + " has only " +
                                   std::to_string(window_records_.size()) + " entries";
        end_stream(StreamFault::Kind::kCursor, {{}, std::nullopt, reason});
    }
}

// Carries the tail of the window over. Ends the stream after a fault, or if no epoch can have a batch.
void Pipeline::close_window() {
    is_window_open_ = false;
    if (window_fault_) {
        end_stream(StreamFault::Kind::kData, *window_fault_);
        return;
    }
    const WindowTail tail = cutter_.close();
    if (tail.is_dropped) {
        carried_records_.clear();
    } else {
        carried_records_.append(window_records_.records(tail.from, tail.count));
    }
    if (tail.no_batch_reason.empty()) return;
    std::string reason = tail.no_batch_reason;
    if (split_.splits_chunks()) reason += " (data.validation_share takes a part of each chunk)";
    const auto num_damaged = std::count(is_damaged_.begin(), is_damaged_.end(), true);
    if (num_damaged != 0) {
        reason += "; " + std::to_string(num_damaged) + " of " + std::to_string(is_damaged_.size()) +
                  " chunks are damaged and left out";
    }
    end_stream(StreamFault::Kind::kData, {source_->name(), std::nullopt, reason});
}

void Pipeline::recycle_buffers() {
    for (LoadedChunk& chunk : loading_.loaded) {
        if (spare_buffers_.size() < settings_.window_chunks) spare_buffers_.push_back(std::move(chunk.records));
    }
    loading_.loaded.clear();
}

}  // namespace sparsepool::stream
