#include "stream/pipeline.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <new>
#include <system_error>
#include <utility>

#include "common/check.h"
#include "common/crash_point.h"

// A window of chunks is decoded, its records are shuffled, and batches are cut from them while the next window is
// decoded. `advance_window`, in pipeline_windows.cpp, leads a window from one phase to the next.
namespace sparsepool::stream {
namespace {

// Processor time that this thread has used.
double thread_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

struct Pipeline::ThreadState {
    explicit ThreadState(const Pipeline& pipeline) : writer(pipeline.source_->batch_writer()) {}

    std::unique_ptr<BatchWriter> writer;
    RunBuffer run_buffer;
};

Pipeline::Pipeline(std::shared_ptr<const Source> source, const PipelineSettings& settings)
    : source_(std::move(source)),
      settings_(settings),
      split_(settings.split(source_->num_chunks(), source_->has_independent_records())),
      chunk_order_(split_.chunks(source_->num_chunks()), settings.components, settings.window_chunks,
                   settings.shuffle && !source_->in_file_order(), settings.seed),
      cutter_(source_->batch_size(), chunk_order_.num_windows(), settings.drop_tail),
      window_records_(source_->record_size()),
      carried_records_(source_->record_size()),
      is_damaged_(source_->num_chunks()),
      is_thinned_(source_->num_chunks()) {
    if (settings.validation) return;
    for (std::size_t i = 0; i < settings.components.size(); ++i) {
        require(chunk_order_.has(i), "data.validation_share: ", settings.validation_share,
                " takes all chunks of entry ", i + 1, " of data.train: lower it, or name files in data.validation");
    }
}

Pipeline::~Pipeline() { close(); }

// --- the caller's side ------------------------------------------------------------------------------------

// Checks and stores the slots, and starts the threads.
void Pipeline::attach(std::vector<std::byte*> slots) {
    require(slots_.empty() && !is_stopping_, "slots are attached once, to an open stream");
    require(!slots.empty(), "a stream needs at least one slot");
    require(chunk_order_.num_windows() != 0, "the source has no chunks");
    require(event_.descriptor() >= 0, "no file descriptor is left for the stream's event");
    slots_ = std::move(slots);
    is_submitted_.assign(slots_.size(), false);
    restart({});
    // The main thread handles all signals: the new threads inherit a mask that blocks them.
    sigset_t all_signals;
    sigset_t old_mask;
    sigfillset(&all_signals);
    pthread_sigmask(SIG_SETMASK, &all_signals, &old_mask);
    std::string problem;
    try {
        while (threads_.size() < settings_.threads) threads_.emplace_back([this] { run_thread(); });
    } catch (const std::system_error& error) {
        problem = std::string("a thread can't be started: ") + error.what();
    }
    pthread_sigmask(SIG_SETMASK, &old_mask, nullptr);
    if (problem.empty()) return;
    close();
    refuse(problem);
}

void Pipeline::seek(const Cursor& cursor) {
    std::unique_lock lock(mutex_);
    require(!slots_.empty() && !is_stopping_, "the stream is closed, or has no slots yet");
    require(cursor.window < chunk_order_.num_windows(), "cursor: window ", cursor.window, " is not one of the ",
            chunk_order_.num_windows(), " windows of an epoch");
    is_seeking_ = true;
    changed_.wait(lock, [this] { return num_running_tasks_ == 0; });
    restart(cursor);
    is_seeking_ = false;
    changed_.notify_all();
}

void Pipeline::submit_slot(std::size_t slot, bool skip_build) {
    const std::lock_guard lock(mutex_);
    require(slot < slots_.size(), "slot ", slot, " is not attached");
    require(!is_submitted_[slot], "slot ", slot, " is the stream's already (I4)");
    require(!is_stopping_, "the stream is closed");
    is_submitted_[slot] = true;
    submitted_.push_back({slot, skip_build});
    changed_.notify_one();
}

Pipeline::PopResult Pipeline::pop_batch() {
    const std::lock_guard lock(mutex_);
    if (fault_is_next()) return *end_fault_;
    if (!has_finished_batch()) return {};
    const FinishedBatch batch = pending_.front().batch;
    pending_.pop_front();
    is_submitted_[batch.slot] = false;
    update_event();
    return batch;
}

Progress Pipeline::progress() {
    const std::lock_guard lock(mutex_);
    return progress_;
}

std::vector<SkippedOfChunk> Pipeline::pop_skipped() {
    const std::lock_guard lock(mutex_);
    return std::exchange(skipped_, {});
}

// Stops and joins the threads. A thread that calls this itself is detached.
void Pipeline::close() {
    std::vector<std::thread> threads;
    {
        const std::lock_guard lock(mutex_);
        is_stopping_ = true;
        changed_.notify_all();
        threads.swap(threads_);
    }
    for (std::thread& thread : threads) {
        if (thread.get_id() == std::this_thread::get_id()) {
            closed_by_own_thread_ = true;
            thread.detach();
        } else {
            thread.join();
        }
    }
}

// --- the threads ------------------------------------------------------------------------------------------

// Runs tasks until the stream is closed. The mutex is held but while a task runs.
void Pipeline::run_thread() {
    pthread_setname_np(pthread_self(), "loader");
    std::optional<ThreadState> state;
    std::unique_lock lock(mutex_);
    while (!is_stopping_) {
        try {
            if (!state) state.emplace(*this);
            Task task = claim_task();
            if (std::holds_alternative<std::monostate>(task)) {
                changed_.wait(lock);
                continue;
            }
            ++num_running_tasks_;
            lock.unlock();
            const double start = thread_seconds();
            run_task(task, *state);
            const double seconds = thread_seconds() - start;
            lock.lock();
            --num_running_tasks_;
            finish_task(task, seconds);
        } catch (const std::bad_alloc&) {
            if (!lock.owns_lock()) {  // thrown by run_task
                lock.lock();
                --num_running_tasks_;
            }
            end_stream(StreamFault::Kind::kMemory,
                       {source_->name(), std::nullopt,
                        "out of memory: lower data.window_chunks, data.threads or data.batch_size"});
        }
        update_event();
        changed_.notify_all();
    }
}

// The most urgent task, or none: first batches that can be built, then parts to shuffle, then chunks to decode.
Pipeline::Task Pipeline::claim_task() {
    if (is_seeking_ || end_fault_) return {};
    std::optional<BuildTask> build = claim_build();
    update_event();
    if (build) return *std::move(build);
    if (end_fault_) return {};
    if (shuffle_ && shuffle_->parts.has_unclaimed()) return ShuffleTask{shuffle_->parts.claimed++};
    if (loading_.parts.has_unclaimed()) return claim_decode();
    return {};
}

// Cuts batches for the submitted slots until one of them has to be built.
std::optional<Pipeline::BuildTask> Pipeline::claim_build() {
    advance_window();
    while (!end_fault_ && is_window_open_ && !submitted_.empty() && cutter_.can_cut()) {
        const Cut cut = cutter_.cut();
        const SubmittedSlot submitted = submitted_.front();
        submitted_.pop_front();
        pending_.push_back({{submitted.slot, cut.begin, cut.next}, submitted.skip_build});
        // Only the first batch of a window has a head: the records carried over from earlier windows.
        RecordBuffer head = std::exchange(carried_records_, RecordBuffer(source_->record_size()));
        if (!submitted.skip_build) {
            ++num_building_;
            return BuildTask{&pending_.back(), std::move(head), window_records_.records(cut.from, cut.count)};
        }
        advance_window();
    }
    return std::nullopt;
}

// Claims as many chunks as the source decodes best together, but at most this thread's share of those unclaimed: other
// threads shall not wait for the last chunks of a window.
Pipeline::DecodeTask Pipeline::claim_decode() {
    PartCounter& parts = loading_.parts;
    const std::size_t unclaimed = parts.count - parts.claimed;
    const std::size_t share = (unclaimed + settings_.threads - 1) / settings_.threads;
    const std::size_t num_chunks = std::min(share, source_->chunks_per_task());
    DecodeTask task{parts.claimed, {}};
    for (std::size_t i = 0; i < num_chunks; ++i) {
        RecordBuffer records(source_->record_size());
        if (!spare_buffers_.empty()) {
            records = std::move(spare_buffers_.back());
            spare_buffers_.pop_back();
        }
        const auto [chunk, pass] = loading_.chunks[parts.claimed++];
        task.chunks.push_back({chunk, pass, std::move(records), 0, {}, {}});
    }
    return task;
}

// Runs a task without the mutex.
void Pipeline::run_task(Task& task, ThreadState& state) {
    if (auto* build = std::get_if<BuildTask>(&task)) {
        const FinishedBatch& batch = build->pending->batch;
        state.writer->write(batch.begin.batch, build->head.records(), build->body, slots_[batch.slot]);
        crash_point("feeder.batch_built");
    } else if (const auto* shuffle = std::get_if<ShuffleTask>(&task)) {
        shuffle_->run(shuffle->part, loading_.loaded, window_records_, state.run_buffer);
        crash_point("feeder.part_shuffled");
    } else if (auto* decode_task = std::get_if<DecodeTask>(&task)) {
        decode(*decode_task);
        crash_point("feeder.chunks_decoded");
    }
}

void Pipeline::decode(DecodeTask& task) const {
    for (ChunkRead& read : task.chunks) read.records.clear();
    source_->decode(task.chunks);
    for (ChunkRead& read : task.chunks) {
        if (split_.splits_chunks()) {
            read.records.retain([&](std::size_t record) { return split_.has(read.chunk, record); });
        }
        if (!read.fault || !can_be_skipped(*read.fault)) continue;
        // Damage is noticed late, and what was read before it may be wrong: the chunk is skipped with all its entries.
        read.skipped = {{"a damaged chunk", *read.fault, read.entries, 1, "chunk"}};
        read.records.clear();
        read.entries = 0;
    }
}

// Records the results of a task. The mutex is held.
void Pipeline::finish_task(Task& task, double seconds) {
    if (const auto* build = std::get_if<BuildTask>(&task)) {
        build->pending->is_finished = true;
        --num_building_;
        ++progress_.batches_built;
        progress_.building_seconds += seconds;
    } else if (std::holds_alternative<ShuffleTask>(task)) {
        ++shuffle_->parts.finished;
        progress_.shuffling_seconds += seconds;
    } else if (auto* decode_task = std::get_if<DecodeTask>(&task)) {
        progress_.decoding_seconds += seconds;
        std::size_t part = decode_task->first_part;
        for (ChunkRead& read : decode_task->chunks) {
            progress_.entries_read += read.entries;
            progress_.entries_kept += read.records.size();
            loading_.loaded[part] = {std::move(read.records), std::move(read.fault), std::move(read.skipped)};
            ++loading_.parts.finished;
            ++part;
        }
    }
}

// --- what `pop_batch` returns (the mutex is held) ----------------------------------------------------------

void Pipeline::end_stream(StreamFault::Kind kind, SourceFault fault) {
    if (!end_fault_) end_fault_ = StreamFault{kind, std::move(fault)};
}

// A batch whose building failed for want of memory is never finished: the fault that ended the stream comes in its
// place.
bool Pipeline::fault_is_next() const {
    if (!end_fault_) return false;
    if (pending_.empty()) return true;
    return !pending_.front().is_finished && num_running_tasks_ == 0;
}

void Pipeline::update_event() { event_.set(fault_is_next() || has_finished_batch()); }

}  // namespace sparsepool::stream
