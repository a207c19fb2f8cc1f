#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <string>
#include <utility>

#include "bind/faults.h"
#include "chess/native/bind/bind.h"
#include "chess/native/reader.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::chess {
namespace {

using RecordBytes = nb::ndarray<const std::uint8_t, nb::shape<-1, sizeof(Record)>, nb::c_contig, nb::device::cpu>;

// A reader written in Python (loader/chess/python_reader.py): an object with num_chunks, name and
// read(chunk) -> (records, fault, left out). Its work is done under the GIL, one chunk at a time.
class PythonReader final : public PositionReader {
  public:
    explicit PythonReader(nb::object reader)
        : reader_(std::move(reader)),
          num_chunks_(nb::cast<std::size_t>(reader_.attr("num_chunks"))),
          name_(nb::cast<std::string>(reader_.attr("name"))) {}

    [[nodiscard]] std::size_t num_chunks() const override { return num_chunks_; }
    [[nodiscard]] std::string name() const override { return name_; }
    [[nodiscard]] std::size_t chunks_per_task() const override { return 1; }
    void compare_with(stream::ChunkSums sums) override { sums_ = sums; }

    void read(std::span<Reading> readings, bool, const Appended& appended) const override {
        for (std::size_t i = 0; i < readings.size(); ++i) {
            read_chunk(readings[i]);
            appended(i);
        }
    }

  private:
    // Calls the Python reader for a chunk. Its exceptions become a fault.
    void read_chunk(Reading& reading) const {
        const nb::gil_scoped_acquire acquire;
        try {
            const nb::tuple result = nb::cast<nb::tuple>(reader_.attr("read")(reading.chunk));
            const auto records = nb::cast<RecordBytes>(result[0]);
            const std::size_t count = records.shape(0);
            if (count != 0) {
                std::memcpy(reading.records->room<Record>(count), records.data(), count * sizeof(Record));
                reading.records->grow(count);
            }
            for (const nb::handle kind : nb::cast<nb::list>(result[2]))
                reading.skipped.push_back(skipped_data_of(kind));
            if (!result[1].is_none()) {
                reading.fault = fault_of(result[1]);
            } else if (!sums_.record_or_verify(reading.chunk, {records.data(), count * sizeof(Record)})) {
                reading.fault = stream::SourceFault{
                    name_, std::nullopt,
                    "chunk " + std::to_string(reading.chunk) + " has other entries than when it was read first",
                    stream::SourceFault::Kind::kChanged};
            }
        } catch (const std::exception& error) {  // the Python reader breaks its contract: it must not raise
            reading.fault =
                stream::SourceFault{name_, std::nullopt, error.what(), stream::SourceFault::Kind::kUnreadable};
        }
    }

    nb::object reader_;
    std::size_t num_chunks_;
    std::string name_;
    stream::ChunkSums sums_;
};

}  // namespace

void bind_python_reader(nb::module_& module) {
    nb::class_<PythonReader, PositionReader>(module, "PythonReader", "A reader written in Python.")
        .def(nb::init<nb::object>(), "reader"_a,
             "`reader`: num_chunks, name, read(chunk) -> (uint8 [entries, 32], fault or None, what was left out), of\n"
             "which a fault is (file, reason, offset or None, \"damaged\", \"changed\" or \"unreadable\"), and what "
             "was\n"
             "left out is as loader.stream.skipped_data.SkippedData has it, by kind. It must not raise.");
}

}  // namespace sparsepool::chess
