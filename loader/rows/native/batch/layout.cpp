#include "rows/native/batch/layout.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <string>

#include "common/check.h"

namespace sparsepool::rows {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();

void check_shape(const RowShape& shape) {
    require(!shape.dense.empty() && (!shape.weight || shape.dense.size() > 1), "a row has a label");
    require(!shape.fields.empty(), "a row has a field");
    std::uint64_t end = 0;
    for (const Field& field : shape.fields) {
        require(field.begin >= end && field.begin < field.end, "field '", field.name,
                "' overlaps another, or is empty");
        require(field.size() <= kMax, "field '", field.name, "' has more than 2^32 - 1 features");
        require(field.max_active != 0, "field '", field.name, "' has no features");
        end = field.end;
    }
    std::vector<bool> has_table(shape.fields.size());
    for (const Table& table : shape.tables) {
        require(table.begin < table.end && table.end <= has_table.size(), "table '", table.name, "' has no fields");
        for (std::size_t i = table.begin; i < table.end; ++i) {
            const Field& field = shape.fields[i];
            const Field& first = shape.fields[table.begin];
            require(!has_table[i], "field '", field.name, "' has two tables");
            require(field.size() == first.size() && field.values == first.values, "field '", field.name,
                    "' can't share the table of '", first.name, "'");
            has_table[i] = true;
        }
    }
    require(std::ranges::find(has_table, false) == has_table.end(), "a field has no table");
}

// The greatest number of features that a bag of the table may have.
std::uint64_t max_bag_size(const RowShape& shape, const Table& table) {
    std::uint64_t max = 0;
    for (std::size_t field = table.begin; field < table.end; ++field) {
        max = std::max<std::uint64_t>(max, shape.fields[field].max_active);
    }
    return max;
}

}  // namespace

Layout read_layout(const batch::Regions& regions, std::uint64_t batch_size, std::uint64_t slot_bytes,
                   const RowShape& shape) {
    require(batch_size != 0 && batch_size <= batch::kMaxBatchSize, "batch size ", batch_size, " is not 1 to ",
            batch::kMaxBatchSize);
    check_shape(shape);
    Layout layout;
    layout.batch_size = static_cast<std::uint32_t>(batch_size);
    layout.slot_bytes = slot_bytes;
    layout.dense.resize(shape.dense.size());
    layout.tables.resize(shape.tables.size());
    std::deque<std::string> names;
    std::vector<batch::ExpectedArray> expected;
    const auto expect = [&](std::string name, std::uint64_t item_size, std::uint64_t count, batch::Region& region) {
        names.push_back(std::move(name));
        expected.push_back({names.back().c_str(), item_size, count, &region});
    };
    expect("header", 8, 1 + 2 * shape.tables.size(), layout.header);
    expect("bucket_offsets", 4, 2, layout.bucket_offsets);
    for (std::size_t i = 0; i < shape.dense.size(); ++i) expect(shape.dense[i], 4, batch_size, layout.dense[i]);
    if (shape.qid) expect("qid", 8, batch_size, layout.qid);
    for (std::size_t i = 0; i < shape.tables.size(); ++i) {
        const Table& table = shape.tables[i];
        const Field& field = shape.fields[table.begin];
        TableLayout& arrays = layout.tables[i];
        const std::uint64_t bags = batch_size * (table.end - table.begin);
        const std::uint64_t bag_size = max_bag_size(shape, table);
        require(bags * bag_size <= kMax, "table '", table.name, "': ", bags, " bags of ", bag_size,
                " features are more than 2^32 - 1");
        const std::uint64_t active = bags * bag_size;
        const std::uint64_t touched = std::min(active, field.size());
        const std::uint64_t feature_nbytes = field.size() > 1U << 16 ? 4 : 2;
        const std::uint64_t bag_nbytes = bags > 1U << 16 ? 4 : 2;
        expect(table.name + ".offsets", 4, bags + 1, arrays.offsets);
        expect(table.name + ".features", feature_nbytes, active, arrays.features);
        expect(table.name + ".touched", feature_nbytes, touched, arrays.touched);
        expect(table.name + ".touched_offsets", 4, touched + 1, arrays.touched_offsets);
        expect(table.name + ".bags", bag_nbytes, active, arrays.bags);
        if (!field.values) continue;
        expect(table.name + ".values", 4, active, arrays.values);
        expect(table.name + ".column_values", 4, active, arrays.column_values);
    }
    batch::read_regions(regions, slot_bytes, expected);
    return layout;
}

}  // namespace sparsepool::rows
