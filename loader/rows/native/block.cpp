#include "rows/native/block.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "rows/native/lines/words.h"
#include "rows/native/record.h"

namespace sparsepool::rows {
namespace {

// What is wrong with the sizes of its arrays.
std::string size_fault(const Block& block, const RowShape& shape) {
    for (std::size_t i = 0; i < shape.dense.size(); ++i) {
        const std::size_t found = block.dense[i].size();
        if (found != block.size) return joined(shape.dense[i], " has ", found, " numbers for ", block.size, " rows");
    }
    if (shape.qid && block.qid.size() != block.size) {
        return joined("qid has ", block.qid.size(), " numbers for ", block.size, " rows");
    }
    for (std::size_t i = 0; i < shape.fields.size(); ++i) {
        const FieldBlock& field = block.fields[i];
        const std::string& name = shape.fields[i].name;
        if (field.offsets.size() != block.size + 1) {
            return joined(name, " has ", field.offsets.size(), " offsets for ", block.size,
                          " rows: one more than rows");
        }
        const std::int64_t first = field.offsets.front();
        const std::int64_t last = field.offsets.back();
        if (first != 0 || last < 0 || static_cast<std::uint64_t>(last) != field.features.size()) {
            return joined(name, ".offsets go from ", first, " to ", last, "; from 0 to ", field.features.size(),
                          " is expected, the number of features");
        }
        if (shape.fields[i].values && field.values.size() != field.features.size()) {
            return joined(name, " has ", field.values.size(), " values for ", field.features.size(), " features");
        }
    }
    return {};
}

class BlockRows {
  public:
    BlockRows(const Block& block, const RowShape& shape, stream::RecordBuffer& rows)
        : block_(block), shape_(shape), builder_(shape, rows), max_active_(shape.max_active()) {}

    [[nodiscard]] std::string append(std::size_t row) {
        builder_.begin(max_active_);
        std::string fault = add_dense(row);
        for (std::size_t field = 0; field < shape_.fields.size() && fault.empty(); ++field) {
            fault = add_features(row, field);
        }
        if (fault.empty()) builder_.end();
        return fault;
    }

  private:
    [[nodiscard]] std::string add_dense(std::size_t row) {
        for (std::size_t i = 0; i < shape_.dense.size(); ++i) {
            float number = block_.dense[i][row];
            if (!std::isfinite(number)) return joined(shape_.dense[i], " is not finite as float32: ", number);
            const char* wanted = i == 0 ? take_label(shape_, number) : nullptr;
            if (wanted != nullptr) return joined("expected ", wanted, ", got ", number);
            if (i == 1 && shape_.weight && number < 0.0F) return joined("expected a weight of 0 or more, got ", number);
            builder_.dense(i, number);
        }
        if (shape_.qid) builder_.qid(block_.qid[row]);
        return {};
    }

    [[nodiscard]] std::string add_features(std::size_t row, std::size_t index) {
        const Field& field = shape_.fields[index];
        const FieldBlock& columns = block_.fields[index];
        const std::int64_t begin = columns.offsets[row];
        const std::int64_t end = columns.offsets[row + 1];
        if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > columns.features.size()) {
            return joined(field.name, ".offsets go from ", begin, " to ", end, ", of ", columns.features.size(),
                          " features");
        }
        if (end - begin > std::int64_t{field.max_active}) {
            return joined(field.name, " has ", end - begin, " features, more than the ", field.max_active,
                          " of data.rows.max_active");
        }
        places_.resize(static_cast<std::size_t>(end - begin));
        std::iota(places_.begin(), places_.end(), static_cast<std::size_t>(begin));
        const auto feature = [&](std::size_t place) { return columns.features[place]; };
        if (!std::ranges::is_sorted(places_, {}, feature)) std::ranges::sort(places_, {}, feature);
        std::int64_t last = -1;
        for (const std::size_t place : places_) {
            const std::int64_t number = columns.features[place];
            if (number < 0 || static_cast<std::uint64_t>(number) >= field.size()) {
                return joined(field.name, " has feature ", number, "; it has 0 to ", field.size() - 1);
            }
            if (number == last) return joined(field.name, " has feature ", number, " twice");
            last = number;
            if (!field.values) {
                builder_.add(index, static_cast<std::uint32_t>(number));
                continue;
            }
            const float value = columns.values[place];
            if (!std::isfinite(value))
                return joined(field.name, ": the value of feature ", number, " is not finite as float32: ", value);
            builder_.add(index, static_cast<std::uint32_t>(number), value);
        }
        return {};
    }

    const Block& block_;
    const RowShape& shape_;
    RowBuilder builder_;
    std::size_t max_active_;
    std::vector<std::size_t> places_;
};

}  // namespace

std::string append_block(const Block& block, const RowShape& shape, stream::RecordBuffer& rows) {
    std::string fault = size_fault(block, shape);
    if (!fault.empty()) return fault;
    BlockRows made(block, shape, rows);
    for (std::size_t row = 0; row < block.size; ++row) {
        fault = made.append(row);
        if (!fault.empty()) return joined("row ", row, ": ", fault);
    }
    return {};
}

}  // namespace sparsepool::rows
