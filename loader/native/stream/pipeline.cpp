#include "stream/pipeline.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <new>
#include <system_error>
#include <utility>

#include "testing/crash_point.h"

namespace sparsepool::stream {
namespace {

double processor_seconds() {  // of this thread
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

struct Pipeline::Worker {
    explicit Worker(const Pipeline& pipeline) : builder(pipeline.layout_, pipeline.set_) {}

    batch::Builder builder;
    EntryOrder::Scratch order;
};

Pipeline::Pipeline(std::shared_ptr<const RecordSource> source, const features::FeatureSet& set,
                   const batch::Layout& layout, const FilterSettings& filters, const PipelineSettings& settings)
    : source_(std::move(source)),
      set_(set),
      layout_(layout),
      filter_(filters, settings.seed),
      settings_(settings),
      chunk_order_(source_->num_chunks(), settings.window_chunks, settings.shuffle, settings.seed),
      cutter_(layout.batch_size, chunk_order_.num_windows(), settings.drop_tail),
      damaged_(source_->num_chunks()) {}

Pipeline::~Pipeline() { close(); }

// --- the caller's side ------------------------------------------------------------------------------------

std::string Pipeline::attach(std::vector<std::byte*> slots) {
    if (!slots_.empty() || stopping_) return "slots are attached once, to an open stream";
    if (slots.empty()) return "a stream needs at least one slot";
    if (chunk_order_.num_windows() == 0) return "the source has no chunks";
    if (event_.descriptor() < 0) return "no file descriptor is left for the stream's event";
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
    if (!fault.empty()) close();
    return fault;
}

std::string Pipeline::seek(const Cursor& cursor) {
    std::unique_lock lock(mutex_);
    if (slots_.empty() || stopping_) return "the stream is closed, or has no slots yet";
    if (cursor.window >= chunk_order_.num_windows()) {
        return "cursor: window " + std::to_string(cursor.window) + " is not one of the " +
               std::to_string(chunk_order_.num_windows()) + " windows of an epoch";
    }
    seeking_ = true;
    changed_.wait(lock, [this] { return running_ == 0; });
    restart(cursor);
    seeking_ = false;
    changed_.notify_all();
    return {};
}

std::string Pipeline::give(std::size_t slot) {
    const std::lock_guard lock(mutex_);
    if (slot >= slots_.size()) return "slot " + std::to_string(slot) + " is not attached";
    if (owned_[slot]) return "slot " + std::to_string(slot) + " is the stream's already (I4)";
    if (stopping_) return "the stream is closed";
    owned_[slot] = true;
    given_.push_back(slot);
    changed_.notify_one();
    return {};
}

Pipeline::Taken Pipeline::take() {
    const std::lock_guard lock(mutex_);
    if (fault_is_next()) return *end_;
    if (pending_.empty() || !pending_.front().done) return {};
    const FinishedBatch batch = pending_.front().batch;
    pending_.pop_front();
    owned_[batch.slot] = false;
    signal();
    return batch;
}

Progress Pipeline::progress() {
    const std::lock_guard lock(mutex_);
    return progress_;
}

std::vector<SourceFault> Pipeline::take_skipped() {
    const std::lock_guard lock(mutex_);
    return std::exchange(skipped_, {});
}

void Pipeline::close() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
}

// --- the threads ------------------------------------------------------------------------------------------

void Pipeline::work() {
    pthread_setname_np(pthread_self(), "loader");
    std::optional<Worker> worker;
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        try {
            if (!worker) worker.emplace(*this);
            Job job = next_job();
            if (std::holds_alternative<std::monostate>(job)) {
                changed_.wait(lock);
                continue;
            }
            ++running_;
            lock.unlock();
            const double began = processor_seconds();
            run(job, *worker);
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
        signal();
        changed_.notify_all();
    }
}

Pipeline::Job Pipeline::next_job() {
    if (seeking_ || end_) return {};
    advance();
    signal();
    if (end_) return {};
    if (open_ && !given_.empty() && cutter_.can_cut()) {
        const Cut cut = cutter_.cut();
        pending_.push_back({{given_.front(), cut.begin, cut.next}, false});
        given_.pop_front();
        ++building_;
        // There is a head only in the first batch of a window, which takes all that was carried.
        return BuildJob{&pending_.back(), std::exchange(carried_, {}), entries_.records().subspan(cut.from, cut.count)};
    }
    if (scatter_ && scatter_->parts.left()) return ScatterJob{scatter_->parts.claimed++};
    if (loading_.parts.left()) return next_decode();
    return {};
}

// As many chunks as are best decoded together, but not so many that other threads would wait for the last ones.
Pipeline::DecodeJob Pipeline::next_decode() {
    Parts& parts = loading_.parts;
    const std::size_t share = (parts.count - parts.claimed + settings_.threads - 1) / settings_.threads;
    DecodeJob job{parts.claimed, std::vector<ChunkRead>(std::min(share, source_->together())), 0};
    for (ChunkRead& read : job.chunks) {
        read.chunk = loading_.chunks[parts.claimed++];
        if (spare_.empty()) continue;
        read.records = std::move(spare_.back());
        spare_.pop_back();
    }
    return job;
}

void Pipeline::run(Job& job, Worker& worker) {
    if (auto* build = std::get_if<BuildJob>(&job)) {
        const FinishedBatch& batch = build->pending->batch;
        worker.builder.build(batch.begin.batch, build->head.records(), build->body, slots_[batch.slot]);
        crash_point("feeder.batch_built");
    } else if (const auto* scatter = std::get_if<ScatterJob>(&job)) {
        scatter_->run(scatter->part, loading_.loaded, entries_.data(), worker.order);
        crash_point("feeder.part_shuffled");
    } else if (auto* decode_job = std::get_if<DecodeJob>(&job)) {
        decode(*decode_job);
        crash_point("feeder.chunks_decoded");
    }
}

void Pipeline::decode(DecodeJob& job) const {
    std::vector<ChunkFilter> filters;
    for (ChunkRead& read : job.chunks) {
        read.records.clear();
        filters.emplace_back(filter_, loading_.epoch, read.chunk);
    }
    source_->decode(job.chunks, filter_.needs_checks(),
                    [&](std::size_t i) { filters[i].block(job.chunks[i].records); });
    for (std::size_t i = 0; i < filters.size(); ++i) {
        ChunkRead& read = job.chunks[i];
        filters[i].end(read.records);
        // Damage is noticed late: what was read before may be invented.
        const bool skipped = read.fault && can_be_skipped(*read.fault);
        if (skipped) read.records.clear();
        job.read += skipped ? 0 : filters[i].entries();
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
        progress_.read += decode->read;
        for (std::size_t i = 0; i < decode->chunks.size(); ++i) {
            ChunkRead& read = decode->chunks[i];
            progress_.kept += read.records.size();
            loading_.loaded[decode->part + i] = {std::move(read.records), std::move(read.fault)};
            ++loading_.parts.finished;
        }
    }
}

// --- what `take` has to say (the mutex is held) -------------------------------------------------------------

void Pipeline::end(StreamFault::Kind kind, SourceFault what) {
    if (!end_) end_ = StreamFault{kind, std::move(what)};
}

// A batch whose building failed for want of memory never gets done: what ended the stream comes in its place.
bool Pipeline::fault_is_next() const {
    return end_ && (pending_.empty() || (!pending_.front().done && running_ == 0));
}

void Pipeline::signal() { event_.set(fault_is_next() || (!pending_.empty() && pending_.front().done)); }

}  // namespace sparsepool::stream
