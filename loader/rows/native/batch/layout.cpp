#include "rows/native/batch/layout.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <string>

#include "common/check.h"

namespace sparsepool::rows {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();

void check_shape(const RowShape& shape, std::uint64_t batch_size) {
    require(!shape.dense.empty() && (!shape.weight || shape.dense.size() > 1), "a row has a label");
    require(!shape.fields.empty() && shape.order.size() == shape.fields.size(), "a row has a field");
    std::uint64_t end = 0;
    for (const Field& field : shape.fields) {
        require(field.begin >= end && field.begin < field.end, "field '", field.name,
                "' overlaps another, or is empty");
        require(field.size() <= kMost, "field '", field.name, "' has more than 2^32 - 1 features");
        require(field.max_active != 0 && batch_size * field.max_active <= kMost, "field '", field.name,
                "': ", batch_size, " rows of ", field.max_active, " features are more than 2^32 - 1");
        end = field.end;
    }
    std::vector<bool> seen(shape.fields.size());
    for (const std::size_t place : shape.order) {
        require(place < seen.size() && !seen[place], "the order of fields is none");
        seen[place] = true;
    }
}

}  // namespace

Layout read_layout(const batch::Regions& regions, std::uint64_t batch_size, std::uint64_t slot_bytes,
                   const RowShape& shape) {
    require(batch_size != 0 && batch_size <= batch::kMaxBatchSize, "batch size ", batch_size, " is not 1 to ",
            batch::kMaxBatchSize);
    check_shape(shape, batch_size);
    Layout layout;
    layout.batch_size = static_cast<std::uint32_t>(batch_size);
    layout.slot_bytes = slot_bytes;
    layout.dense.resize(shape.dense.size());
    layout.fields.resize(shape.fields.size());
    const std::uint64_t bag = batch_size > 1U << 16 ? 4 : 2;
    std::deque<std::string> names;
    std::vector<batch::ExpectedArray> expected;
    const auto expect = [&](std::string name, std::uint64_t item_size, std::uint64_t count, batch::Region& region) {
        names.push_back(std::move(name));
        expected.push_back({names.back().c_str(), item_size, count, &region});
    };
    expect("header", 8, 1 + 2 * shape.fields.size(), layout.header);
    expect("bucket_offsets", 4, 2, layout.bucket_offsets);
    for (std::size_t i = 0; i < shape.dense.size(); ++i) expect(shape.dense[i], 4, batch_size, layout.dense[i]);
    if (shape.qid) expect("qid", 8, batch_size, layout.qid);
    for (std::size_t i = 0; i < shape.fields.size(); ++i) {
        const Field& field = shape.fields[i];
        FieldLayout& place = layout.fields[i];
        const std::uint64_t active = batch_size * field.max_active;
        const std::uint64_t touched = std::min(active, field.size());
        const std::uint64_t number = field.size() > 1U << 16 ? 4 : 2;
        expect(field.name + ".offsets", 4, batch_size + 1, place.offsets);
        expect(field.name + ".features", number, active, place.features);
        expect(field.name + ".touched", number, touched, place.touched);
        expect(field.name + ".touched_offsets", 4, touched + 1, place.touched_offsets);
        expect(field.name + ".bags", bag, active, place.bags);
        if (!field.values) continue;
        expect(field.name + ".values", 4, active, place.values);
        expect(field.name + ".column_values", 4, active, place.column_values);
    }
    batch::take_regions(regions, slot_bytes, expected);
    return layout;
}

}  // namespace sparsepool::rows
