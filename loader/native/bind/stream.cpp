#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bind/bind.h"
#include "bind/errors.h"
#include "bind/faults.h"
#include "bind/files.h"
#include "common/check.h"
#include "stream/order/order.h"
#include "stream/pipeline.h"
#include "stream/source.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool {
namespace {

using namespace stream;

using Slot = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>, nb::c_contig>;
using Words = nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<1>, nb::c_contig>;
using CursorTuple = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;
using FilledTuple = std::tuple<std::size_t, CursorTuple, CursorTuple>;

[[noreturn]] void raise_source_fault(const SourceFault& fault) {
    raise_data_error(name_of(fault.file), fault.reason, fault.offset, fault.kind == SourceFault::Kind::kChanged);
}

CursorTuple tuple_of(const Cursor& cursor) { return {cursor.batch, cursor.epoch, cursor.window, cursor.entry}; }

// The pipeline, and the memory that its threads use. A thread may wait for the GIL if a reader is written in Python, so
// each method that waits for threads releases the GIL. A forked process has none of the threads, their locks may stay
// locked, and the descriptor is shared with the parent: there no method touches the pipeline.
class BoundPipeline {
  public:
    BoundPipeline(std::shared_ptr<Source> source, const PipelineSettings& settings)
        : source_(std::move(source)),
          // The pipeline does not own the source: a pipeline that is leaked (see below) keeps no Python objects alive.
          pipeline_(std::make_unique<Pipeline>(std::shared_ptr<const Source>(std::shared_ptr<void>(), source_.get()),
                                               settings)) {}

    ~BoundPipeline() {
        close();
        if (is_forked()) {
            static_cast<void>(pipeline_.release());  // leaked: it can't be destroyed without its threads
        } else if (!pipeline_->has_ended()) {
            // One of its threads destroys this object and goes on: what the thread uses is leaked.
            static_cast<void>(pipeline_.release());
            static_cast<void>(new ThreadMemory{std::move(slots_), std::move(words_), std::move(source_)});
        }
    }
    BoundPipeline(const BoundPipeline&) = delete;
    BoundPipeline& operator=(const BoundPipeline&) = delete;

    [[nodiscard]] std::size_t num_chunks() const { return source_->num_chunks(); }

    void compare_with(Words words) {
        check_process();
        require(slots_.empty(), "chunks are compared from the start on, or not at all");
        require(words.size() == num_chunks(), words.size(), " words for ", num_chunks(), " chunks");
        source_->compare_with(ChunkSums({words.data(), words.size()}));
        words_ = std::move(words);
    }

    void attach(std::vector<Slot> slots) {
        check_process();
        std::vector<std::byte*> memory;
        const std::size_t bytes = source_->slot_bytes();
        for (const Slot& slot : slots) {
            const bool aligned = reinterpret_cast<std::uintptr_t>(slot.data()) % 8 == 0;
            require(slot.size() >= bytes && aligned, "a slot must have ", bytes, " bytes, 8-byte aligned");
            memory.push_back(reinterpret_cast<std::byte*>(slot.data()));
        }
        slots_ = std::move(slots);
        const nb::gil_scoped_release release;
        pipeline_->attach(std::move(memory));
    }

    void seek(const CursorTuple& cursor) {
        check_process();
        const nb::gil_scoped_release release;
        pipeline_->seek({std::get<0>(cursor), std::get<1>(cursor), std::get<2>(cursor), std::get<3>(cursor)});
    }

    void submit_slot(std::size_t slot, bool skip_build) {
        check_process();
        pipeline_->submit_slot(slot, skip_build);
    }

    std::optional<FilledTuple> pop_batch() {
        check_process();
        const Pipeline::PopResult result = pipeline_->pop_batch();
        if (const auto* batch = std::get_if<FinishedBatch>(&result)) {
            return FilledTuple{batch->slot, tuple_of(batch->begin), tuple_of(batch->next)};
        }
        if (const auto* end = std::get_if<StreamFault>(&result)) {
            if (end->kind == StreamFault::Kind::kCursor) refuse(end->fault.reason);
            raise_source_fault(end->fault);
        }
        return std::nullopt;
    }

    std::vector<std::pair<std::size_t, SkippedTuple>> pop_skipped() {
        check_process();
        std::vector<std::pair<std::size_t, SkippedTuple>> tuples;
        for (const SkippedOfChunk& skipped : pipeline_->pop_skipped()) {
            tuples.emplace_back(skipped.chunk, as_tuple(skipped.data));
        }
        return tuples;
    }

    [[nodiscard]] int fileno() const { return pipeline_->descriptor(); }

    std::tuple<std::uint64_t, std::uint64_t, std::uint64_t> progress() {
        check_process();
        const Progress progress = pipeline_->progress();
        return {progress.entries_read, progress.entries_kept, progress.batches_built};
    }

    std::tuple<double, double, double> processor_time() {
        check_process();
        const Progress progress = pipeline_->progress();
        return {progress.decoding_seconds, progress.shuffling_seconds, progress.building_seconds};
    }

    void close() {
        if (is_forked()) return;
        const nb::gil_scoped_release release;
        pipeline_->close();
    }

  private:
    [[nodiscard]] bool is_forked() const { return process_ != ::getpid(); }

    void check_process() const {
        require(!is_forked(), "the stream was opened in another process, whose threads are not here: open one here");
    }

    struct ThreadMemory {
        std::vector<Slot> slots;
        Words words;
        std::shared_ptr<Source> source;
    };

    const pid_t process_ = ::getpid();
    std::vector<Slot> slots_;  // keeps the memory alive; destroyed after the pipeline
    Words words_;              // likewise
    std::shared_ptr<Source> source_;
    std::unique_ptr<Pipeline> pipeline_;
};

// Decodes chunks for the first time.
std::vector<ChunkRead> decode_chunks(const Source& source, const std::vector<std::size_t>& chunks) {
    std::vector<ChunkRead> reads;
    for (const std::size_t chunk : chunks) {
        require(chunk < source.num_chunks(), "chunk ", chunk, " of ", source.num_chunks());
        reads.push_back({chunk, 0, RecordBuffer(source.record_size()), 0, {}, {}});
    }
    const nb::gil_scoped_release release;
    source.decode(reads);
    return reads;
}

// For each chunk: how many records pass the filters when the chunk is read first. A damaged chunk has none.
std::vector<std::uint64_t> count_kept(const Source& source, const std::vector<std::size_t>& chunks) {
    std::vector<std::uint64_t> counts;
    for (const ChunkRead& read : decode_chunks(source, chunks)) {
        if (read.fault && read.fault->kind != SourceFault::Kind::kDamaged) raise_source_fault(*read.fault);
        counts.push_back(read.fault ? 0 : read.records.size());
    }
    return counts;
}

Split split_of(const Source& source, const PipelineSettings& settings) {
    return settings.split(source.num_chunks(), source.has_independent_records());
}

std::vector<std::uint32_t> chunks_of_window(const Source& source, const PipelineSettings& settings, std::uint64_t epoch,
                                            std::uint64_t window) {
    const ChunkOrder order(split_of(source, settings).chunks(source.num_chunks()), settings.components,
                           settings.window_chunks, settings.shuffle && !source.in_file_order(), settings.seed);
    std::vector<std::uint32_t> chunks;
    if (window >= order.num_windows()) return chunks;
    for (const ChunkTurn& turn : order.window(epoch, window)) chunks.push_back(turn.chunk);
    return chunks;
}

// The chunks that have records for the stream of these settings.
std::vector<std::uint32_t> chunks_of_side(const Source& source, const PipelineSettings& settings) {
    return split_of(source, settings).chunks(source.num_chunks());
}

// How many records the stream of these settings gets of such a chunk when it is read first.
std::uint64_t count_chunk(const Source& source, const PipelineSettings& settings, std::size_t chunk) {
    const Split split = split_of(source, settings);
    std::vector<ChunkRead> reads = decode_chunks(source, {chunk});
    ChunkRead& read = reads.front();
    if (read.fault) {
        const bool is_skipped = settings.skip_damaged && read.fault->kind == SourceFault::Kind::kDamaged;
        if (!is_skipped) raise_source_fault(*read.fault);
        return 0;
    }
    if (split.splits_chunks()) read.records.retain([&](std::size_t record) { return split.has(chunk, record); });
    return read.records.size();
}

}  // namespace

void bind_stream(nb::module_& module) {
    nb::class_<Source>(module, "Source", "A family's records: chunks of files on one side, batches on the other.")
        .def_prop_ro("num_chunks", &Source::num_chunks)
        .def_prop_ro("in_file_order", &Source::in_file_order, "chunks are best read one after the other")
        .def("count_kept", &count_kept, "chunks"_a,
             "Of each of the chunks: samples that pass the filters when it is read first; 0 of a damaged one. Raises\n"
             "DataError for a file that can't be read.")
        .def("chunks_of_side", &chunks_of_side, "settings"_a, "Chunks that the stream of these settings reads.")
        .def("count_chunk", &count_chunk, "settings"_a, "chunk"_a,
             "Samples that such a chunk gives to it when it is read first. Raises DataError.")
        .def("chunks_of_window", &chunks_of_window, "settings"_a, "epoch"_a, "window"_a,
             "Numbers of the chunks that make a window, in the order of the permuted epoch; none behind the last one.");
    nb::class_<Component>(module, "Component", "Consecutive chunks of a source that have a rate of their own.")
        .def(
            "__init__",
            [](Component* component, std::size_t num_chunks, double rate) {
                new (component) Component{num_chunks, rate};
            },
            "num_chunks"_a, "rate"_a)
        .def_ro("num_chunks", &Component::num_chunks)
        .def_ro("rate", &Component::rate, "chunks of it, against those of the others");
    module.def("reads_of_an_epoch", &reads_of_an_epoch, "components"_a,
               "How many chunks of each an epoch has: the one that lasts longest once, the others at their rates.");
    nb::class_<PipelineSettings>(module, "PipelineSettings", "How the stream is ordered and made.")
        .def(nb::init<>())
        .def_rw("seed", &PipelineSettings::seed)
        .def_rw("window_chunks", &PipelineSettings::window_chunks)
        .def_rw("threads", &PipelineSettings::threads)
        .def_rw("shuffle", &PipelineSettings::shuffle)
        .def_rw("drop_tail", &PipelineSettings::drop_tail)
        .def_rw("skip_damaged", &PipelineSettings::skip_damaged)
        .def_rw("validation_share", &PipelineSettings::validation_share)
        .def_rw("components", &PipelineSettings::components, "of the source's chunks, in order; empty: one set")
        .def_rw("validation", &PipelineSettings::validation, "the stream has that share; else the rest");
    nb::class_<BoundPipeline>(module, "Pipeline", "A source's batches in slots, made by threads of its own.")
        .def(nb::init<std::shared_ptr<Source>, const PipelineSettings&>(), "source"_a, "settings"_a)
        .def_prop_ro("num_chunks", &BoundPipeline::num_chunks)
        .def("compare_with", &BoundPipeline::compare_with, "words"_a,
             "Before `attach`; see loader.stream.interface.Compared. Raises ValueError for another number of words.")
        .def("attach", &BoundPipeline::attach, "slots"_a)
        .def("seek", &BoundPipeline::seek, "cursor"_a, "cursor: (batch, epoch, window, entry)")
        .def("give", &BoundPipeline::submit_slot, "slot"_a, "pass_over"_a = false,
             "pass_over: see loader.stream.interface.PassesOver.")
        .def("take", &BoundPipeline::pop_batch, "(slot, cursor, next cursor), or None. Raises DataError.")
        .def("take_skipped", &BoundPipeline::pop_skipped,
             "[(chunk, what was left out of it, as loader.stream.skipped_data.SkippedData)], each chunk once.")
        .def("fileno", &BoundPipeline::fileno)
        .def("progress", &BoundPipeline::progress, "Entries read, entries kept, batches built; all since the start.")
        .def("processor_time", &BoundPipeline::processor_time,
             "Seconds of all threads for decoding and filters, shuffling, building batches; since the start.")
        .def("close", &BoundPipeline::close);
}

}  // namespace sparsepool
