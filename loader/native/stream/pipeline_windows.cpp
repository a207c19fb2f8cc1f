// From window to window: how the pipeline's windows follow one another. The mutex is held in all of this.

#include <algorithm>
#include <limits>
#include <utility>

#include "stream/pipeline.h"

namespace sparsepool::stream {

void Pipeline::restart(const Cursor& cursor) {
    given_.clear();
    pending_.clear();
    owned_.assign(slots_.size(), false);
    recycle_chunks();
    scatter_.reset();
    leftover_.clear();
    open_ = false;
    window_fault_.reset();
    end_.reset();
    cutter_.seek(cursor);
    load(cursor.epoch, cursor.window);
    update_event();
}

// Does every step that waits for no job: a window's way from loaded to used up.
void Pipeline::advance() {
    while (!end_) {
        if (scatter_) {
            if (!scatter_->parts.done()) return;
            if (!scatter_->next_round(entries_)) open_window();
        } else if (open_) {
            if (cutter_.can_cut() || building_ != 0) return;
            close_window();
        } else {
            if (!loading_.parts.done()) return;
            begin_scatter();
        }
    }
}

void Pipeline::load(std::uint64_t epoch, std::uint64_t window) {
    loading_.epoch = epoch;
    loading_.window = window;
    loading_.chunks = chunk_order_.window(epoch, window);
    loading_.loaded.clear();
    for (std::size_t i = 0; i < loading_.chunks.size(); ++i) {
        loading_.loaded.push_back({RecordBuffer(source_->record_size()), {}, {}});
    }
    loading_.parts = {loading_.chunks.size(), 0, 0};
}

// From here on, damaged chunks are chunks without entries. They are reported in stream order, and so is what has been
// left out of others.
void Pipeline::skip_damaged() {
    for (std::size_t i = 0; i < loading_.loaded.size(); ++i) {
        std::optional<SourceFault>& fault = loading_.loaded[i].fault;
        std::vector<LeftOut>& left_out = loading_.loaded[i].left_out;
        const std::uint32_t chunk = loading_.chunks[i].chunk;
        const bool was_reported = damaged_[chunk] || thinned_[chunk];
        if (fault && can_be_skipped(*fault)) {
            damaged_[chunk] = true;
            fault.reset();
        } else if (!left_out.empty()) {
            thinned_[chunk] = true;
        }
        for (LeftOut& each : left_out) {
            if (!was_reported) skipped_.push_back({chunk, std::move(each)});
        }
    }
}

void Pipeline::begin_scatter() {
    skip_damaged();
    if (const SourceFault* fault = loading_.fault()) window_fault_ = *fault;
    // Shuffled, nothing of a damaged window can be used: where its entries go depends on those missing.
    // In file order it is good up to the damage.
    const bool whole = !window_fault_;
    std::uint64_t size = 0;
    bool usable = whole || !settings_.shuffle;
    for (LoadedChunk& chunk : loading_.loaded) {
        if (!usable) chunk.records.clear();
        size += chunk.records.size();
        usable = usable && !chunk.fault;
    }
    if (size > std::numeric_limits<std::uint32_t>::max()) {
        end(StreamFault::Kind::kMemory,
            {source_->name(), std::nullopt, "a window has more than 2^32 entries: lower data.window_chunks"});
        return;
    }
    std::optional<EntryOrder> order;
    if (settings_.shuffle) {
        order.emplace(static_cast<std::uint32_t>(size), source_->batch_size(), settings_.seed, loading_.epoch,
                      loading_.window);
    }
    scatter_.emplace(std::move(order), loading_.loaded, entries_);
}

void Pipeline::open_window() {
    scatter_.reset();
    recycle_chunks();
    if (!cutter_.open(entries_.size())) {
        if (window_fault_) {
            end(StreamFault::Kind::kData, *window_fault_);
        } else {
            end(StreamFault::Kind::kCursor,
                {{},
                 std::nullopt,
                 "cursor: window " + std::to_string(loading_.window) + " of epoch " + std::to_string(loading_.epoch) +
                     " has only " + std::to_string(entries_.size()) + " entries"});
        }
        return;
    }
    open_ = true;
    const bool last = loading_.window + 1 == chunk_order_.num_windows();
    if (!window_fault_) load(last ? loading_.epoch + 1 : loading_.epoch, last ? 0 : loading_.window + 1);
}

void Pipeline::close_window() {
    open_ = false;
    if (window_fault_) {
        end(StreamFault::Kind::kData, *window_fault_);
        return;
    }
    const Rest rest = cutter_.close();
    if (rest.dropped) {
        leftover_.clear();
    } else {
        leftover_.append(entries_.records(rest.from, rest.count));
    }
    if (rest.starved.empty()) return;
    const auto damaged = std::count(damaged_.begin(), damaged_.end(), true);
    const std::string chunks = std::to_string(damaged) + " of " + std::to_string(damaged_.size());
    const std::string parted = split_.parts_chunks() ? " (data.validation_share takes a part of each chunk)" : "";
    const std::string skipped = damaged == 0 ? "" : "; " + chunks + " chunks are damaged and left out";
    end(StreamFault::Kind::kData, {source_->name(), std::nullopt, rest.starved + parted + skipped});
}

void Pipeline::recycle_chunks() {
    for (LoadedChunk& chunk : loading_.loaded) {
        if (spare_.size() < settings_.window_chunks) spare_.push_back(std::move(chunk.records));
    }
    loading_.loaded.clear();
}

}  // namespace sparsepool::stream
