#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <span>
#include <string>
#include <utility>

#include "bind/faults.h"
#include "rows/native/bind/bind.h"
#include "rows/native/block.h"
#include "rows/native/reader.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::rows {
namespace {

template <class Item>
using Given = nb::ndarray<const Item, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class Item>
std::span<const Item> span_of(const nb::handle& array) {
    const auto given = nb::cast<Given<Item>>(array);
    return {given.data(), given.size()};  // the array lives as long as the answer that holds it
}

Block block_of(const nb::handle& answer) {
    const auto parts = nb::cast<nb::tuple>(answer);
    Block block;
    block.size = nb::cast<std::size_t>(parts[0]);
    for (const nb::handle array : nb::cast<nb::sequence>(parts[1])) block.dense.push_back(span_of<float>(array));
    if (!parts[2].is_none()) block.qid = span_of<std::int64_t>(parts[2]);
    for (const nb::handle entry : nb::cast<nb::sequence>(parts[3])) {
        const auto arrays = nb::cast<nb::tuple>(entry);
        FieldBlock& field = block.fields.emplace_back();
        field.offsets = span_of<std::int64_t>(arrays[0]);
        field.features = span_of<std::int64_t>(arrays[1]);
        if (!arrays[2].is_none()) field.values = span_of<float>(arrays[2]);
    }
    return block;
}

// The place of a fault in front of what it says of a row or of the whole block.
std::string placed(std::string place, std::size_t block, std::size_t num_blocks, const std::string& fault) {
    if (num_blocks > 1) place += (place.empty() ? "block " : ", block ") + std::to_string(block);
    if (place.empty()) return fault;
    return place + (fault.starts_with("row ") ? ", " : ": ") + fault;
}

// A reader written in Python (loader/rows/python_reader.py): an object with num_chunks, name and
// read(chunk) -> (blocks, fault, file, place). Its work is done under the GIL, one chunk at a time.
class PythonReader final : public RowReader {
  public:
    explicit PythonReader(nb::object reader)
        : reader_(std::move(reader)),
          num_chunks_(nb::cast<std::size_t>(reader_.attr("num_chunks"))),
          name_(nb::cast<std::string>(reader_.attr("name"))) {}

    [[nodiscard]] std::size_t num_chunks() const override { return num_chunks_; }
    [[nodiscard]] std::string name() const override { return name_; }
    [[nodiscard]] bool in_file_order() const override { return false; }
    void compare_with(stream::ChunkSums sums) override { sums_ = sums; }

    [[nodiscard]] Read read(std::size_t chunk, const RowShape& shape, stream::RecordBuffer& rows) const override {
        using enum stream::SourceFault::Kind;
        const std::size_t bytes = rows.num_bytes();
        const std::size_t size = rows.size();
        Read read;
        {
            const nb::gil_scoped_acquire acquire;
            try {
                read.fault = read_chunk(chunk, shape, rows);
            } catch (const std::exception& error) {  // of the Python side, which keeps to its contract
                read.fault = stream::SourceFault{name_, std::nullopt, error.what(), kUnreadable};
            }
        }
        read.rows = rows.size() - size;
        const std::span made(reinterpret_cast<const std::uint8_t*>(rows.data()) + bytes, rows.num_bytes() - bytes);
        if (!read.fault && !sums_.agrees(chunk, made)) {
            read.fault = stream::SourceFault{
                name_, std::nullopt, "chunk " + std::to_string(chunk) + " has other rows than when it was read first",
                kChanged};
        }
        return read;
    }

  private:
    std::optional<stream::SourceFault> read_chunk(std::size_t chunk, const RowShape& shape,
                                                  stream::RecordBuffer& rows) const {
        const auto answer = nb::cast<nb::tuple>(reader_.attr("read")(chunk));
        const auto blocks = nb::cast<nb::sequence>(answer[0]);
        const std::size_t count = nb::len(blocks);
        std::size_t number = 0;
        for (const nb::handle given : blocks) {
            std::string fault = append_block(block_of(given), shape, rows);
            if (!fault.empty()) {
                return stream::SourceFault{nb::cast<std::string>(answer[2]), std::nullopt,
                                           placed(nb::cast<std::string>(answer[3]), number, count, fault)};
            }
            ++number;
        }
        if (answer[1].is_none()) return std::nullopt;
        return fault_of(answer[1]);
    }

    nb::object reader_;
    std::size_t num_chunks_;
    std::string name_;
    stream::ChunkSums sums_;
};

}  // namespace

void bind_python_reader(nb::module_& module) {
    nb::class_<PythonReader, RowReader>(module, "PythonRowReader", "A reader written in Python.")
        .def(nb::init<nb::object>(), "reader"_a,
             "`reader`: num_chunks, name, read(chunk) -> (blocks, fault or None, file, place). A block: (rows, float32 "
             "arrays "
             "of\n"
             "the dense numbers, int64 array of qids or None, (int64 offsets, int64 features, float32 values or None)\n"
             "of each field). A fault: (file, reason, offset or None, \"damaged\", \"changed\" or \"unreadable\"). It\n"
             "must not raise.");
}

}  // namespace sparsepool::rows
