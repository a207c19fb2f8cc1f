#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "stream/cutter.h"
#include "stream/event.h"
#include "stream/order/mixture.h"
#include "stream/order/split.h"
#include "stream/shuffle.h"
#include "stream/source.h"
#include "stream/window.h"

// The stream's threads: they decode the next window while batches are built from the current one.
//
// One mutex guards everything but the insides of a task. A task builds one batch, shuffles one part of a window, or
// decodes a few chunks. A thread takes the first task there is, in that order. What a task writes is its own until it
// is finished, and its place in the stream was decided before it began. So no thread and no timing influences what a
// batch holds (I1).
//
// Memory: the current window's records, the next window's chunks, and less than one batch carried over from one
// window to the next.
namespace sparsepool::stream {

struct PipelineSettings {
    std::uint64_t seed = 0;
    std::uint64_t window_chunks = 16;
    std::uint32_t threads = 2;
    bool shuffle = true;
    bool drop_tail = false;
    bool skip_damaged = false;          // a damaged chunk counts as one without entries; else it ends the stream
    double validation_share = 0.0;      // of the files; 0: the stream has all of them
    bool validation = false;            // the stream has that share; else the remaining files
    std::vector<Component> components;  // of the source's chunks, in order; empty: all are one set, read once an epoch

    [[nodiscard]] Split split(std::size_t num_chunks, bool has_independent_records) const {
        if (validation_share == 0.0) return {};
        return {validation_share, validation, has_independent_records, num_chunks, seed};
    }
};

struct FinishedBatch {
    std::size_t slot = 0;
    Cursor begin;
    Cursor next;
};

// Why the stream ended.
struct StreamFault {
    enum class Kind { kData, kCursor, kMemory } kind = Kind::kData;
    SourceFault fault;
};

// What was skipped of one chunk.
struct SkippedOfChunk {
    std::size_t chunk = 0;
    SkippedData data;
};

struct Progress {
    std::uint64_t entries_read = 0;
    std::uint64_t entries_kept = 0;  // of those read, after the filters
    std::uint64_t batches_built = 0;
    double decoding_seconds = 0.0;  // processor time of all threads; filters included
    double shuffling_seconds = 0.0;
    double building_seconds = 0.0;
};

class Pipeline {
  public:
    Pipeline(std::shared_ptr<const Source> source, const PipelineSettings& settings);
    ~Pipeline();
    Pipeline(const Pipeline&) = delete;
    Pipeline& operator=(const Pipeline&) = delete;

    // All methods but `close` may be called by one thread only. They throw std::invalid_argument for what can't be
    // done. Each slot has at least the source's slot_bytes and must live until `close`. Starts the threads.
    void attach(std::vector<std::byte*> slots);
    // Waits until no thread writes to a slot, forgets all submitted slots, and restarts at the cursor.
    void seek(const Cursor& cursor);
    // Lets the stream fill a slot. With `skip_build` the batch for this slot is finished without being built.
    void submit_slot(std::size_t slot, bool skip_build = false);

    // The next finished batch in stream order, or nothing. When all batches before a fault were popped, the fault,
    // every time.
    using PopResult = std::variant<std::monostate, FinishedBatch, StreamFault>;
    [[nodiscard]] PopResult pop_batch();

    [[nodiscard]] int descriptor() const { return event_.descriptor(); }  // readable while `pop_batch` has something
    [[nodiscard]] Progress progress();

    // What was skipped in the windows opened since the last call: damaged chunks, and units or entries of others. Each
    // chunk is reported once, in stream order.
    [[nodiscard]] std::vector<SkippedOfChunk> pop_skipped();

    // Stops the threads and waits for them. May be called by any thread, by several at once, and by one of the
    // stream's own threads, if it runs code that calls this (a garbage collection of Python's). Nobody waits for that
    // thread.
    void close();
    // A closed pipeline may be destroyed only when none of its threads runs any more.
    [[nodiscard]] bool has_ended() const { return !closed_by_own_thread_; }

  private:
    struct PendingBatch {  // a batch that is cut, in stream order
        FinishedBatch batch;
        bool is_finished = false;
    };
    struct SubmittedSlot {
        std::size_t slot;
        bool skip_build;
    };
    struct BuildTask {
        PendingBatch* pending;
        RecordBuffer head;  // carried over from earlier windows
        RecordSpan body;
    };
    struct ShuffleTask {
        std::size_t part;
    };
    struct DecodeTask {
        std::size_t first_part;
        std::vector<ChunkRead> chunks;  // consecutive chunks of the window, decoded together
    };
    using Task = std::variant<std::monostate, BuildTask, ShuffleTask, DecodeTask>;
    struct ThreadState;

    // pipeline.cpp: threads and tasks.
    void run_thread();
    [[nodiscard]] Task claim_task();
    [[nodiscard]] std::optional<BuildTask> claim_build();
    [[nodiscard]] DecodeTask claim_decode();
    void run_task(Task& task, ThreadState& state);
    void decode(DecodeTask& task) const;
    void finish_task(Task& task, double seconds);
    void end_stream(StreamFault::Kind kind, SourceFault fault);
    [[nodiscard]] bool has_finished_batch() const { return !pending_.empty() && pending_.front().is_finished; }
    [[nodiscard]] bool fault_is_next() const;
    void update_event();

    // pipeline_windows.cpp: windows, one after another. The mutex is held.
    void restart(const Cursor& cursor);
    void advance_window();
    void start_loading(std::uint64_t epoch, std::uint64_t window);
    void start_shuffle();
    void open_window();
    void close_window();
    [[nodiscard]] bool can_be_skipped(const SourceFault& fault) const {
        return settings_.skip_damaged && fault.kind == SourceFault::Kind::kDamaged;
    }
    void skip_damaged();
    void recycle_buffers();

    const std::shared_ptr<const Source> source_;
    const PipelineSettings settings_;
    const Split split_;
    const ChunkOrder chunk_order_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::thread> threads_;
    bool is_stopping_ = false;
    std::atomic<bool> closed_by_own_thread_ = false;
    bool is_seeking_ = false;
    std::size_t num_running_tasks_ = 0;

    std::vector<std::byte*> slots_;
    std::vector<bool> is_submitted_;       // for each slot: it is the stream's
    std::deque<SubmittedSlot> submitted_;  // slots without a batch
    std::deque<PendingBatch> pending_;
    Event event_;

    Cutter cutter_;
    RecordBuffer window_records_;   // of the open window, shuffled
    RecordBuffer carried_records_;  // of earlier windows
    bool is_window_open_ = false;
    std::size_t num_building_ = 0;             // batches that are being built from window_records_
    std::optional<SourceFault> window_fault_;  // what cut the open window short
    std::optional<Shuffle> shuffle_;
    LoadingWindow loading_;
    std::vector<RecordBuffer> spare_buffers_;  // of chunks, to be used again
    std::vector<bool> is_damaged_;             // for each chunk: it was found damaged and skipped
    std::vector<bool> is_thinned_;             // for each chunk: some of its units or entries were skipped
    std::vector<SkippedOfChunk> skipped_;      // not popped yet
    std::optional<StreamFault> end_fault_;
    Progress progress_;
};

}  // namespace sparsepool::stream
