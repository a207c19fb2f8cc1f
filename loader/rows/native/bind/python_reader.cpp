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
using InputArray = nb::ndarray<const Item, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A view of an array's memory, valid as long as the tuple that holds the array.
template <class Item>
std::span<const Item> span_of(const nb::handle& object) {
    const auto array = nb::cast<InputArray<Item>>(object);
    return {array.data(), array.size()};
}

// Converts (rows, dense arrays, qids or None, (offsets, features, values or None) of each field).
Block block_of(const nb::handle& tuple) {
    const auto parts = nb::cast<nb::tuple>(tuple);
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

// Puts in front of a fault where in the chunk it is: the reader's description of the place, and the block.
std::string add_location(std::string location, std::size_t block, std::size_t num_blocks, const std::string& fault) {
    if (num_blocks > 1) location += (location.empty() ? "block " : ", block ") + std::to_string(block);
    if (location.empty()) return fault;
    const bool is_of_row = fault.starts_with("row ");
    return location + (is_of_row ? ", " : ": ") + fault;
}

// A reader written in Python (loader/rows/python_reader.py): an object with num_chunks, name and
// read(chunk) -> (blocks, fault, file, place). It runs under the GIL, one chunk at a time.
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
        const std::size_t old_num_bytes = rows.num_bytes();
        const std::size_t old_size = rows.size();
        Read read;
        {
            const nb::gil_scoped_acquire acquire;
            try {
                read.fault = read_chunk(chunk, shape, rows);
            } catch (const std::exception& error) {  // the Python side broke its contract
                read.fault = stream::SourceFault{name_, std::nullopt, error.what(), kUnreadable};
            }
        }
        read.rows = rows.size() - old_size;
        const std::span appended(reinterpret_cast<const std::uint8_t*>(rows.data()) + old_num_bytes,
                                 rows.num_bytes() - old_num_bytes);
        if (!read.fault && !sums_.record_or_verify(chunk, appended)) {
            read.fault = stream::SourceFault{
                name_, std::nullopt, "chunk " + std::to_string(chunk) + " has other rows than when it was read first",
                kChanged};
        }
        return read;
    }

  private:
    std::optional<stream::SourceFault> read_chunk(std::size_t chunk, const RowShape& shape,
                                                  stream::RecordBuffer& rows) const {
        const auto result = nb::cast<nb::tuple>(reader_.attr("read")(chunk));  // blocks, fault, file, place
        const auto blocks = nb::cast<nb::sequence>(result[0]);
        const std::size_t num_blocks = nb::len(blocks);
        std::size_t index = 0;
        for (const nb::handle block : blocks) {
            const std::string fault = append_block(block_of(block), shape, rows);
            if (!fault.empty()) {
                const std::string reason = add_location(nb::cast<std::string>(result[3]), index, num_blocks, fault);
                return stream::SourceFault{nb::cast<std::string>(result[2]), std::nullopt, reason};
            }
            ++index;
        }
        if (result[1].is_none()) return std::nullopt;
        return fault_of(result[1]);
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
