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

// A window of chunks is decoded, its records are shuffled ("scattered"), and batches are cut from them while the next
// window is decoded. `advance`, in pipeline_windows.cpp, takes the window from one phase to the next.
namespace sparsepool::stream {
namespace {

double processor_seconds() {  // of this thread
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

struct Pipeline::ThreadState {
    explicit ThreadState(const Pipeline& pipeline) : writer(pipeline.source_->batch_writer()) {}

    std::unique_ptr<BatchWriter> writer;
    EntryOrder::Scratch order;
};

Pipeline::Pipeline(std::shared_ptr<const Source> source, const PipelineSettings& settings)
    : source_(std::move(source)),
      settings_(settings),
      split_(settings.split(source_->num_chunks(), source_->records_are_apart())),
      chunk_order_(split_.chunks(source_->num_chunks()), settings.components, settings.window_chunks,
                   settings.shuffle && !source_->in_file_order(), settings.seed),
      cutter_(source_->batch_size(), chunk_order_.num_windows(), settings.drop_tail),
      entries_(source_->record_size()),
      leftover_(source_->record_size()),
      damaged_(source_->num_chunks()),
      thinned_(source_->num_chunks()) {
    for (std::size_t i = 0; i < settings.components.size() && !settings.validation; ++i) {
        require(chunk_order_.has(i), "data.validation_share: ", settings.validation_share,
                " takes all chunks of entry ", i + 1, " of data.train: lower it, or name files in data.validation");
    }
}

Pipeline::~Pipeline() { close(); }

// --- the caller's side ------------------------------------------------------------------------------------

void Pipeline::attach(std::vector<std::byte*> slots) {
    require(slots_.empty() && !stopping_, "slots are attached once, to an open stream");
    require(!slots.empty(), "a stream needs at least one slot");
    require(chunk_order_.num_windows() != 0, "the source has no chunks");
    require(event_.descriptor() >= 0, "no file descriptor is left for the stream's event");
    slots_ = std::move(slots);
    owned_.assign(slots_.size(), false);
    restart({});
    // Signals are the main thread's business: the new threads inherit a full mask.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::string fault;
    try {
        while (threads_.size() < settings_.threads) threads_.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
        fault = std::string("a thread can't be started: ") + error.what();
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (fault.empty()) return;
    close();
    refuse(fault);
}

void Pipeline::seek(const Cursor& cursor) {
    std::unique_lock lock(mutex_);
    require(!slots_.empty() && !stopping_, "the stream is closed, or has no slots yet");
    require(cursor.window < chunk_order_.num_windows(), "cursor: window ", cursor.window, " is not one of the ",
            chunk_order_.num_windows(), " windows of an epoch");
    seeking_ = true;
    changed_.wait(lock, [this] { return running_ == 0; });
    restart(cursor);
    seeking_ = false;
    changed_.notify_all();
}

void Pipeline::give(std::size_t slot, bool pass_over) {
    const std::lock_guard lock(mutex_);
    require(slot < slots_.size(), "slot ", slot, " is not attached");
    require(!owned_[slot], "slot ", slot, " is the stream's already (I4)");
    require(!stopping_, "the stream is closed");
    owned_[slot] = true;
    given_.push_back({slot, pass_over});
    changed_.notify_one();
}

Pipeline::Taken Pipeline::take() {
    const std::lock_guard lock(mutex_);
    if (fault_is_next()) return *end_;
    if (pending_.empty() || !pending_.front().done) return {};
    const FinishedBatch batch = pending_.front().batch;
    pending_.pop_front();
    owned_[batch.slot] = false;
    update_event();
    return batch;
}

Progress Pipeline::progress() {
    const std::lock_guard lock(mutex_);
    return progress_;
}

std::vector<Skipped> Pipeline::take_skipped() {
    const std::lock_guard lock(mutex_);
    return std::exchange(skipped_, {});
}

void Pipeline::close() {
    std::vector<std::thread> threads;
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
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

void Pipeline::work() {
    pthread_setname_np(pthread_self(), "loader");
    std::optional<ThreadState> state;
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        try {
            if (!state) state.emplace(*this);
            Job job = next_job();
            if (std::holds_alternative<std::monostate>(job)) {
                changed_.wait(lock);
                continue;
            }
            ++running_;
            lock.unlock();
            const double began = processor_seconds();
            run(job, *state);
            const double seconds = processor_seconds() - began;
            lock.lock();
            --running_;
            finish(job, seconds);
        } catch (const std::bad_alloc&) {
            if (!lock.owns_lock()) {  // thrown by `run`
                lock.lock();
                --running_;
            }
            end(StreamFault::Kind::kMemory,
                {source_->name(), std::nullopt,
                 "out of memory: lower data.window_chunks, data.threads or data.batch_size"});
        }
        update_event();
        changed_.notify_all();
    }
}

Pipeline::Job Pipeline::next_job() {
    if (seeking_ || end_) return {};
    std::optional<BuildJob> build = next_build();
    update_event();
    if (build) return *std::move(build);
    if (end_) return {};
    if (scatter_ && scatter_->parts.left()) return ScatterJob{scatter_->parts.claimed++};
    if (loading_.parts.left()) return next_decode();
    return {};
}

// Cuts batches, until there is one to be built.
std::optional<Pipeline::BuildJob> Pipeline::next_build() {
    for (advance(); !end_ && open_ && !given_.empty() && cutter_.can_cut(); advance()) {
        const Cut cut = cutter_.cut();
        const Given given = given_.front();
        given_.pop_front();
        pending_.push_back({{given.slot, cut.begin, cut.next}, given.pass_over});
        // The head has the records that were left of earlier windows: only the first batch of a window has any.
        RecordBuffer head = std::exchange(leftover_, RecordBuffer(source_->record_size()));
        if (given.pass_over) continue;
        ++building_;
        return BuildJob{&pending_.back(), std::move(head), entries_.records(cut.from, cut.count)};
    }
    return std::nullopt;
}

// As many chunks as are best decoded together, but not so many that other threads would wait for the last ones.
Pipeline::DecodeJob Pipeline::next_decode() {
    Parts& parts = loading_.parts;
    const std::size_t share = (parts.count - parts.claimed + settings_.threads - 1) / settings_.threads;
    DecodeJob job{parts.claimed, {}};
    for (std::size_t count = std::min(share, source_->together()); count != 0; --count) {
        RecordBuffer records(source_->record_size());
        if (!spare_.empty()) {
            records = std::move(spare_.back());
            spare_.pop_back();
        }
        const auto [chunk, pass] = loading_.chunks[parts.claimed++];
        job.chunks.push_back({chunk, pass, std::move(records), 0, {}, {}});
    }
    return job;
}

void Pipeline::run(Job& job, ThreadState& state) {
    if (auto* build = std::get_if<BuildJob>(&job)) {
        const FinishedBatch& batch = build->pending->batch;
        state.writer->write(batch.begin.batch, build->head.records(), build->body, slots_[batch.slot]);
        crash_point("feeder.batch_built");
    } else if (const auto* scatter = std::get_if<ScatterJob>(&job)) {
        scatter_->run(scatter->part, loading_.loaded, entries_, state.order);
        crash_point("feeder.part_shuffled");
    } else if (auto* decode_job = std::get_if<DecodeJob>(&job)) {
        decode(*decode_job);
        crash_point("feeder.chunks_decoded");
    }
}

void Pipeline::decode(DecodeJob& job) const {
    for (ChunkRead& read : job.chunks) read.records.clear();
    source_->decode(job.chunks);
    for (ChunkRead& read : job.chunks) {
        if (split_.parts_chunks()) {
            read.records.keep([&](std::size_t record) { return split_.has(read.chunk, record); });
        }
        if (!read.fault || !can_be_skipped(*read.fault)) continue;
        // Damage is noticed late: what was read before may be invented.
        read.left_out = {{"a damaged chunk", *read.fault, read.entries, 1, "chunk"}};
        read.records.clear();
        read.entries = 0;
    }
}

void Pipeline::finish(Job& job, double seconds) {
    if (const auto* build = std::get_if<BuildJob>(&job)) {
        build->pending->done = true;
        --building_;
        ++progress_.built;
        progress_.building += seconds;
    } else if (std::holds_alternative<ScatterJob>(job)) {
        ++scatter_->parts.finished;
        progress_.shuffling += seconds;
    } else if (auto* decode = std::get_if<DecodeJob>(&job)) {
        progress_.decoding += seconds;
        for (std::size_t i = 0; i < decode->chunks.size(); ++i) {
            ChunkRead& read = decode->chunks[i];
            progress_.read += read.entries;
            progress_.kept += read.records.size();
            loading_.loaded[decode->part + i] = {std::move(read.records), std::move(read.fault),
                                                 std::move(read.left_out)};
            ++loading_.parts.finished;
        }
    }
}

// --- what `take` returns (the mutex is held) -------------------------------------------------------------

void Pipeline::end(StreamFault::Kind kind, SourceFault what) {
    if (!end_) end_ = StreamFault{kind, std::move(what)};
}

// A batch whose building failed for want of memory never gets done: what ended the stream comes in its place.
bool Pipeline::fault_is_next() const { return end_ && (pending_.empty() || (!pending_.front().done && running_ == 0)); }

void Pipeline::update_event() { event_.set(fault_is_next() || (!pending_.empty() && pending_.front().done)); }

}  // namespace sparsepool::stream
