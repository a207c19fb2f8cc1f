#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bind/bind.h"
#include "bind/errors.h"
#include "stream/binpack_source.h"
#include "stream/pipeline.h"
#include "stream/win_draw_loss.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace sparsepool::stream;

namespace {

using Slot = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>, nb::c_contig>;
using Words = nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<1>, nb::c_contig>;
using CursorTuple = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;
using FilledTuple = std::tuple<std::size_t, CursorTuple, CursorTuple>;
using SkippedTuple = std::tuple<nb::object, std::string, std::optional<std::uint64_t>>;
using Regions = std::map<std::string, std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>>;

void check(const std::string& fault) {
    if (!fault.empty()) throw nb::value_error(fault.c_str());
}

CursorTuple tuple_of(const Cursor& cursor) { return {cursor.batch, cursor.epoch, cursor.window, cursor.entry}; }

nb::object file_name(const SourceFault& fault) {  // any bytes, as the system allows
    const auto size = static_cast<Py_ssize_t>(fault.file.size());
    return nb::steal<nb::object>(PyUnicode_DecodeFSDefaultAndSize(fault.file.data(), size));
}

// The pipeline, and what its threads need to stay alive.
class BinpackPipeline {
  public:
    BinpackPipeline(std::vector<std::shared_ptr<const sparsepool::BinpackFile>> files, const std::string& features,
                    std::uint64_t batch_size, std::uint64_t slot_bytes, const Regions& regions,
                    const FilterSettings& filters, const PipelineSettings& settings) {
        const auto* set = sparsepool::features::find_feature_set(features);
        if (set == nullptr) throw nb::value_error(("unknown feature set '" + features + "'").c_str());
        std::map<std::string, sparsepool::batch::Region> table;
        for (const auto& [name, region] : regions) {
            table[name] = {std::get<0>(region), std::get<1>(region), std::get<2>(region)};
        }
        check(sparsepool::batch::read_layout(table, batch_size, slot_bytes, *set, layout_));
        source_ = std::make_shared<BinpackSource>(std::move(files));
        pipeline_ = std::make_unique<Pipeline>(source_, *set, layout_, filters, settings);
    }

    [[nodiscard]] std::size_t num_chunks() const { return source_->num_chunks(); }

    void compare_with(Words words) {
        if (!slots_.empty()) check("chunks are compared from the start on, or not at all");
        if (words.size() != source_->num_chunks()) {
            check(std::to_string(words.size()) + " words for " + std::to_string(source_->num_chunks()) + " chunks");
        }
        source_->compare_with(ChunkSums({words.data(), words.size()}));
        words_ = std::move(words);
    }

    void attach(std::vector<Slot> slots) {
        std::vector<std::byte*> memory;
        for (const Slot& slot : slots) {
            const bool aligned = reinterpret_cast<std::uintptr_t>(slot.data()) % 8 == 0;
            if (slot.size() < layout_.slot_bytes || !aligned) {
                check("a slot must have " + std::to_string(layout_.slot_bytes) + " bytes, 8-byte aligned");
            }
            memory.push_back(reinterpret_cast<std::byte*>(slot.data()));
        }
        slots_ = std::move(slots);
        check(pipeline_->attach(std::move(memory)));
    }

    void seek(const CursorTuple& cursor) {
        std::string fault;
        {
            const nb::gil_scoped_release release;
            fault = pipeline_->seek(
                {std::get<0>(cursor), std::get<1>(cursor), std::get<2>(cursor), std::get<3>(cursor)});
        }
        check(fault);
    }

    void give(std::size_t slot) { check(pipeline_->give(slot)); }

    std::optional<FilledTuple> take() {
        const Pipeline::Taken taken = pipeline_->take();
        if (const auto* batch = std::get_if<FinishedBatch>(&taken)) {
            return FilledTuple{batch->slot, tuple_of(batch->begin), tuple_of(batch->next)};
        }
        if (const auto* fault = std::get_if<StreamFault>(&taken)) {
            if (fault->kind == StreamFault::Kind::kCursor) check(fault->what.reason);
            const bool changed = fault->what.kind == SourceFault::Kind::kChanged;
            raise_data_error(file_name(fault->what), fault->what.reason, fault->what.offset, changed);
        }
        return std::nullopt;
    }

    std::vector<SkippedTuple> take_skipped() {
        std::vector<SkippedTuple> skipped;
        for (const SourceFault& fault : pipeline_->take_skipped()) {
            skipped.emplace_back(file_name(fault), fault.reason, fault.offset);
        }
        return skipped;
    }

    [[nodiscard]] int fileno() const { return pipeline_->descriptor(); }

    std::tuple<std::uint64_t, std::uint64_t, std::uint64_t> progress() {
        const Progress progress = pipeline_->progress();
        return {progress.read, progress.kept, progress.built};
    }

    std::tuple<double, double, double> processor_time() {
        const Progress progress = pipeline_->progress();
        return {progress.decoding, progress.shuffling, progress.building};
    }

    void close() {
        const nb::gil_scoped_release release;
        pipeline_->close();
    }

  private:
    sparsepool::batch::Layout layout_;
    std::vector<Slot> slots_;  // keeps the memory alive; destroyed after the pipeline
    Words words_;              // likewise
    std::shared_ptr<BinpackSource> source_;
    std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace

void bind_stream(nb::module_& module) {
    nb::class_<FilterSettings>(module, "FilterSettings", "Which entries are left out; see loader.config.FilterConfig.")
        .def(nb::init<>())
        .def_rw("skip_no_score", &FilterSettings::skip_no_score)
        .def_rw("skip_in_check", &FilterSettings::skip_in_check)
        .def_rw("skip_captures", &FilterSettings::skip_captures)
        .def_rw("skip_promotions", &FilterSettings::skip_promotions)
        .def_rw("skip_ply_up_to", &FilterSettings::skip_ply_up_to)
        .def_rw("random_skip", &FilterSettings::random_skip)
        .def_rw("win_draw_loss", &FilterSettings::win_draw_loss)
        .def_rw("piece_count", &FilterSettings::piece_count);
    nb::class_<PipelineSettings>(module, "PipelineSettings", "How the stream is ordered and made.")
        .def(nb::init<>())
        .def_rw("seed", &PipelineSettings::seed)
        .def_rw("window_chunks", &PipelineSettings::window_chunks)
        .def_rw("threads", &PipelineSettings::threads)
        .def_rw("shuffle", &PipelineSettings::shuffle)
        .def_rw("drop_tail", &PipelineSettings::drop_tail)
        .def_rw("skip_damaged", &PipelineSettings::skip_damaged);
    nb::class_<BinpackPipeline>(module, "BinpackPipeline", "Binpack files to batches in slots, on threads of its own.")
        .def(nb::init<std::vector<std::shared_ptr<const sparsepool::BinpackFile>>, const std::string&, std::uint64_t,
                      std::uint64_t, const Regions&, const FilterSettings&, const PipelineSettings&>(),
             "files"_a, "features"_a, "batch_size"_a, "slot_bytes"_a, "regions"_a, "filters"_a, "settings"_a,
             "regions: name -> (offset, count, item size), of loader.schema.")
        .def_prop_ro("num_chunks", &BinpackPipeline::num_chunks)
        .def("compare_with", &BinpackPipeline::compare_with, "words"_a,
             "Before `attach`; see loader.stream.Compared. Raises ValueError for another number of words.")
        .def("attach", &BinpackPipeline::attach, "slots"_a)
        .def("seek", &BinpackPipeline::seek, "cursor"_a, "cursor: (batch, epoch, window, entry)")
        .def("give", &BinpackPipeline::give, "slot"_a)
        .def("take", &BinpackPipeline::take, "(slot, cursor, next cursor), or None. Raises DataError.")
        .def("take_skipped", &BinpackPipeline::take_skipped,
             "(file, reason, offset) of each damaged chunk left out, each once; see loader.stream.Stream.skipped.")
        .def("fileno", &BinpackPipeline::fileno)
        .def("progress", &BinpackPipeline::progress, "Entries read, entries kept, batches built; all since the start.")
        .def("processor_time", &BinpackPipeline::processor_time,
             "Seconds of all threads for decoding and filters, shuffling, building batches; since the start.")
        .def("close", &BinpackPipeline::close);
    module.def("win_draw_loss_probability", &win_draw_loss_probability, "ply"_a, "score"_a, "result"_a,
               "Probability of the game's result, given score and ply: what the win_draw_loss filter keeps with.");
}
