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
#include "stream/scatter.h"
#include "stream/source.h"
#include "stream/window.h"

// The stream's threads: they decode the next window while batches are built from the current one.
//
// One mutex guards everything but the insides of a job. A job is one batch to build, one part of a window to
// scatter, or a few chunks to decode; a thread takes the first there is, in that order. What a job writes is its
// own until it is finished, and where it lies in the stream was decided before it began: so no thread, and no
// timing, has a say in what a batch holds (I1).
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
    bool validation = false;            // the stream has that share; else the rest
    std::vector<Component> components;  // of the source's chunks, in order; empty: all are one set, read once an epoch

    [[nodiscard]] Split split(std::size_t num_chunks, bool apart) const {
        return validation_share == 0.0 ? Split() : Split(validation_share, validation, apart, num_chunks, seed);
    }
};

struct FinishedBatch {
    std::size_t slot = 0;
    Cursor begin;
    Cursor next;
};

struct StreamFault {
    enum class Kind { kData, kCursor, kMemory } kind = Kind::kData;
    SourceFault what;
};

// What was left out of a chunk.
struct Skipped {
    std::size_t chunk = 0;
    LeftOut what;
};

struct Progress {
    std::uint64_t read = 0;   // entries decoded
    std::uint64_t kept = 0;   // of these, after the filters
    std::uint64_t built = 0;  // batches
    double decoding = 0.0;    // seconds of processor time of all threads; filters included
    double shuffling = 0.0;
    double building = 0.0;
};

class Pipeline {
  public:
    Pipeline(std::shared_ptr<const Source> source, const PipelineSettings& settings);
    ~Pipeline();
    Pipeline(const Pipeline&) = delete;
    Pipeline& operator=(const Pipeline&) = delete;

    // But for `close`, all of these may be called by one thread only. They throw std::invalid_argument for what can't
    // be done. Slots are at least the source's slot_bytes and must live until `close`. Starts the threads.
    void attach(std::vector<std::byte*> slots);
    // Waits until no thread writes to a slot, forgets all slots given, and begins anew at the cursor.
    void seek(const Cursor& cursor);
    // `pass_over`: the batch that is due for the slot is finished without being built.
    void give(std::size_t slot, bool pass_over = false);

    // The next finished batch in stream order; a fault, again and again, once all batches before it were
    // taken; or nothing.
    using Taken = std::variant<std::monostate, FinishedBatch, StreamFault>;
    [[nodiscard]] Taken take();

    [[nodiscard]] int descriptor() const { return event_.descriptor(); }  // readable while `take` has something
    [[nodiscard]] Progress progress();

    // What was left out of the windows opened so far: damaged chunks, and units or entries of others; of each chunk
    // once, in stream order, and not given back before.
    [[nodiscard]] std::vector<Skipped> take_skipped();

    // Stops the threads, and waits for them. May be called by any thread, by several at once, and by one of the threads
    // themselves, if they run code that ends up here (a garbage collection of Python's): for that one nobody waits.
    void close();
    // Only when no thread of it is left may a closed pipeline be destroyed.
    [[nodiscard]] bool has_ended() const { return !closed_by_own_thread_; }

  private:
    struct Pending {  // a batch cut, in stream order
        FinishedBatch batch;
        bool done = false;
    };
    struct Given {
        std::size_t slot;
        bool pass_over;
    };
    struct BuildJob {
        Pending* pending;
        RecordBuffer head;  // carried over from earlier windows
        RecordSpan body;
    };
    struct ScatterJob {
        std::size_t part;
    };
    struct DecodeJob {
        std::size_t part;               // of the first chunk
        std::vector<ChunkRead> chunks;  // the following ones of the window, decoded together
    };
    using Job = std::variant<std::monostate, BuildJob, ScatterJob, DecodeJob>;
    struct ThreadState;

    void work();
    [[nodiscard]] Job next_job();
    [[nodiscard]] std::optional<BuildJob> next_build();
    [[nodiscard]] DecodeJob next_decode();
    void run(Job& job, ThreadState& state);
    void decode(DecodeJob& job) const;
    void finish(Job& job, double seconds);

    void restart(const Cursor& cursor);
    void advance();
    void load(std::uint64_t epoch, std::uint64_t window);
    void begin_scatter();
    [[nodiscard]] bool can_be_skipped(const SourceFault& fault) const {
        return settings_.skip_damaged && fault.kind == SourceFault::Kind::kDamaged;
    }
    void skip_damaged();
    void open_window();
    void close_window();
    void recycle_chunks();
    void end(StreamFault::Kind kind, SourceFault what);
    [[nodiscard]] bool fault_is_next() const;
    void update_event();

    const std::shared_ptr<const Source> source_;
    const PipelineSettings settings_;
    const Split split_;
    const ChunkOrder chunk_order_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::thread> threads_;
    bool stopping_ = false;
    std::atomic<bool> closed_by_own_thread_ = false;
    bool seeking_ = false;
    std::size_t running_ = 0;  // jobs

    std::vector<std::byte*> slots_;
    std::vector<bool> owned_;  // by the stream
    std::deque<Given> given_;  // slots not yet used
    std::deque<Pending> pending_;
    Event event_;

    Cutter cutter_;
    RecordBuffer entries_;  // of the open window
    RecordBuffer leftover_;
    bool open_ = false;
    std::size_t building_ = 0;                 // batches that are being built from entries_
    std::optional<SourceFault> window_fault_;  // what cut the open window short
    std::optional<Scatter> scatter_;
    Loading loading_;
    std::vector<RecordBuffer> spare_;  // chunk buffers to use again
    std::vector<bool> damaged_;        // chunks found damaged and left out
    std::vector<bool> thinned_;        // chunks of which some units or entries are
    std::vector<Skipped> skipped_;     // of these, what `take_skipped` has not given back yet
    std::optional<StreamFault> end_;
    Progress progress_;
};

}  // namespace sparsepool::stream
