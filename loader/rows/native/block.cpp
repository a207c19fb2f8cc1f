#include "rows/native/block.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "rows/native/lines/words.h"
#include "rows/native/record.h"

namespace sparsepool::rows {
namespace {

// What is wrong with the sizes of a field's arrays; empty if nothing is.
std::string find_field_size_fault(const FieldBlock& arrays, const Field& field, std::size_t rows) {
    const std::size_t num_features = arrays.features.size();
    if (arrays.offsets.size() != rows + 1) {
        return joined(field.name, " has ", arrays.offsets.size(), " offsets for ", rows, " rows: one more than rows");
    }
    const std::int64_t first = arrays.offsets.front();
    const std::int64_t last = arrays.offsets.back();
    if (first != 0 || last < 0 || static_cast<std::uint64_t>(last) != num_features) {
        return joined(field.name, ".offsets go from ", first, " to ", last, "; from 0 to ", num_features,
                      " is expected, the number of features");
    }
    if (field.values && arrays.values.size() != num_features) {
        return joined(field.name, " has ", arrays.values.size(), " values for ", num_features, " features");
    }
    return {};
}

// What is wrong with the sizes of a block's arrays; empty if nothing is.
std::string find_size_fault(const Block& block, const RowShape& shape) {
    for (std::size_t i = 0; i < shape.dense.size(); ++i) {
        const std::size_t size = block.dense[i].size();
        if (size != block.size) return joined(shape.dense[i], " has ", size, " numbers for ", block.size, " rows");
    }
    if (shape.qid && block.qid.size() != block.size) {
        return joined("qid has ", block.qid.size(), " numbers for ", block.size, " rows");
    }
    for (std::size_t i = 0; i < shape.fields.size(); ++i) {
        std::string fault = find_field_size_fault(block.fields[i], shape.fields[i], block.size);
        if (!fault.empty()) return fault;
    }
    return {};
}

// Appends the rows of a block. A method returns what is wrong with a row, or nothing.
class BlockAppender {
  public:
    BlockAppender(const Block& block, const RowShape& shape, stream::RecordBuffer& rows)
        : block_(block), shape_(shape), builder_(shape, rows), max_active_(shape.max_active()) {}

    [[nodiscard]] std::string append(std::size_t row) {
        builder_.begin(max_active_);
        std::string fault = add_dense(row);
        if (!fault.empty()) return fault;
        for (std::size_t field = 0; field < shape_.fields.size(); ++field) {
            fault = add_features(row, field);
            if (!fault.empty()) return fault;
        }
        builder_.end();
        return {};
    }

  private:
    [[nodiscard]] std::string add_dense(std::size_t row) {
        for (std::size_t i = 0; i < shape_.dense.size(); ++i) {
            float number = block_.dense[i][row];
            if (!std::isfinite(number)) return joined(shape_.dense[i], " is not finite as float32: ", number);
            if (i == 0) {
                const char* const expected = convert_label(shape_, number);
                if (expected != nullptr) return joined("expected ", expected, ", got ", number);
            }
            if (i == 1 && shape_.weight && number < 0.0F) return joined("expected a weight of 0 or more, got ", number);
            builder_.dense(i, number);
        }
        if (shape_.qid) builder_.qid(block_.qid[row]);
        return {};
    }

    [[nodiscard]] std::string add_features(std::size_t row, std::size_t index) {
        const Field& field = shape_.fields[index];
        const FieldBlock& arrays = block_.fields[index];
        const std::int64_t begin = arrays.offsets[row];
        const std::int64_t end = arrays.offsets[row + 1];
        if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > arrays.features.size()) {
            return joined(field.name, ".offsets go from ", begin, " to ", end, ", of ", arrays.features.size(),
                          " features");
        }
        if (end - begin > std::int64_t{field.max_active}) {
            return joined(field.name, " has ", end - begin, " features, more than the ", field.max_active,
                          " of data.rows.max_active");
        }
        std::int64_t previous = -1;
        for (const std::size_t i : sort_by_feature(arrays, begin, end)) {
            const std::int64_t feature = arrays.features[i];
            if (feature < 0 || static_cast<std::uint64_t>(feature) >= field.size()) {
                return joined(field.name, " has feature ", feature, "; it has 0 to ", field.size() - 1);
            }
            if (feature == previous) return joined(field.name, " has feature ", feature, " twice");
            previous = feature;
            if (!field.values) {
                builder_.add(index, static_cast<std::uint32_t>(feature));
                continue;
            }
            const float value = arrays.values[i];
            if (!std::isfinite(value)) {
                return joined(field.name, ": the value of feature ", feature, " is not finite as float32: ", value);
            }
            builder_.add(index, static_cast<std::uint32_t>(feature), value);
        }
        return {};
    }

    // The indices begin .. end - 1 in the order of their features.
    [[nodiscard]] const std::vector<std::size_t>& sort_by_feature(const FieldBlock& arrays, std::int64_t begin,
                                                                  std::int64_t end) {
        indices_.resize(static_cast<std::size_t>(end - begin));
        std::iota(indices_.begin(), indices_.end(), static_cast<std::size_t>(begin));
        const auto feature_of = [&](std::size_t i) { return arrays.features[i]; };
        if (!std::ranges::is_sorted(indices_, {}, feature_of)) std::ranges::sort(indices_, {}, feature_of);
        return indices_;
    }

    const Block& block_;
    const RowShape& shape_;
    RowBuilder builder_;
    std::size_t max_active_;
    std::vector<std::size_t> indices_;
};

}  // namespace

std::string append_block(const Block& block, const RowShape& shape, stream::RecordBuffer& rows) {
    std::string fault = find_size_fault(block, shape);
    if (!fault.empty()) return fault;
    BlockAppender appender(block, shape, rows);
    for (std::size_t row = 0; row < block.size; ++row) {
        fault = appender.append(row);
        if (!fault.empty()) return joined("row ", row, ": ", fault);
    }
    return {};
}

}  // namespace sparsepool::rows
