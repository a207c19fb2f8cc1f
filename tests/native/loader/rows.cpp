#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "batch/sorted_columns.h"
#include "rows/native/batch/layout.h"
#include "rows/native/block.h"
#include "rows/native/record.h"

using namespace sparsepool;

namespace {

rows::RowShape two_fields() {
    rows::RowShape shape;
    shape.dense = {"label", "weight"};
    shape.weight = true;
    shape.qid = true;
    shape.fields = {{"low", 0, 10, false, 2}, {"high", 10, 20, true, 3}};
    shape.tables = {{"high", 1, 2}, {"low", 0, 1}};
    return shape;
}

}  // namespace

TEST_CASE("sorted columns say what rows say, for any number of features") {
    for (const std::uint64_t num_features : {1UL, 2UL, 2048UL, 2049UL, 1UL << 22, (1UL << 32) - 1}) {
        std::mt19937_64 random(num_features);
        std::vector<batch::ValuedFeature> items;
        std::map<std::uint32_t, std::vector<std::pair<std::uint32_t, float>>> expected;
        for (std::uint32_t bag = 0; bag < 500; ++bag) {
            const auto feature = static_cast<std::uint32_t>(random() % num_features);
            items.push_back({feature, bag, static_cast<float>(bag) / 8});
            expected[feature].emplace_back(bag, static_cast<float>(bag) / 8);
        }
        std::vector<batch::ValuedFeature> memory[2] = {items, items};
        batch::FeatureSort<batch::ValuedFeature> sort(num_features, memory[0].data(), memory[1].data());
        for (const batch::ValuedFeature& item : items) sort.count(item.feature);
        for (const batch::ValuedFeature& item : items) sort.put(item);
        const auto sorted = sort.finish();
        std::vector<std::uint32_t> touched(items.size());
        std::vector<std::uint32_t> offsets(items.size() + 1);
        std::vector<std::uint16_t> bags(items.size());
        std::vector<float> values(items.size());
        const std::uint32_t count = batch::write_columns<std::uint32_t, std::uint16_t, batch::ValuedFeature>(
            sorted, touched.data(), offsets.data(), bags.data(), values.data());
        REQUIRE(count == expected.size());
        std::uint32_t column = 0;
        for (const auto& [feature, active] : expected) {
            CHECK(touched[column] == feature);
            REQUIRE(offsets[column + 1] - offsets[column] == active.size());
            for (std::size_t i = 0; i < active.size(); ++i) {
                CHECK(bags[offsets[column] + i] == active[i].first);
                CHECK(values[offsets[column] + i] == active[i].second);
            }
            ++column;
        }
    }
}

TEST_CASE("a row that was begun and not ended is forgotten") {
    const rows::RowShape shape = two_fields();
    stream::RecordBuffer buffer(0);
    rows::RowBuilder builder(shape, buffer);
    builder.begin(5);
    builder.add(0, 7);
    builder.begin(5);
    builder.dense(0, 1.0F);
    builder.dense(1, 0.5F);
    builder.qid(-3);
    builder.add(0, 4);
    builder.add(1, 2, 2.5F);
    builder.add(1, 9, -1.0F);
    builder.end();
    builder.begin(5);
    builder.end();
    REQUIRE(buffer.size() == 2);
    const rows::RowView row(shape, buffer.records()[0]);
    CHECK(row.dense(1) == 0.5F);
    CHECK(row.qid() == -3);
    CHECK(row.count(0) == 1);
    CHECK(row.words(0)[0] == 4);
    CHECK(row.count(1) == 2);
    CHECK(row.words(1)[2] == 9);
    CHECK(rows::RowView(shape, buffer.records()[1]).count(1) == 0);
}

TEST_CASE("blocks become rows up to the first that can't be one") {
    const rows::RowShape shape = two_fields();
    const std::vector<float> labels = {1, 2, 3};
    const std::vector<float> weights = {1, 0, -1};
    const std::vector<std::int64_t> qids = {5, 6, 7};
    const std::vector<std::int64_t> low_offsets = {0, 2, 2, 2};
    const std::vector<std::int64_t> low = {8, 3};
    const std::vector<std::int64_t> high_offsets = {0, 0, 1, 1};
    const std::vector<std::int64_t> high = {9};
    const std::vector<float> values = {0.25};
    rows::Block block;
    block.size = 3;
    block.dense = {labels, weights};
    block.qid = qids;
    block.fields = {{low_offsets, low, {}}, {high_offsets, high, values}};
    stream::RecordBuffer buffer(0);
    CHECK(rows::append_block(block, shape, buffer) == "row 2: expected a weight of 0 or more, got -1");
    REQUIRE(buffer.size() == 2);
    const rows::RowView first(shape, buffer.records()[0]);
    CHECK(first.words(0)[0] == 3);
    CHECK(first.words(0)[1] == 8);
    block.fields[0].offsets = std::span(low_offsets).first(3);
    CHECK(rows::append_block(block, shape, buffer) == "low has 3 offsets for 3 rows: one more than rows");
}

TEST_CASE("a layout is refused for a shape that no batch has") {
    const auto refused = [](const rows::RowShape& shape, std::uint64_t batch_size, const std::string& said) {
        CHECK_THROWS_WITH_AS((void)rows::read_layout({}, batch_size, 0, shape), said.c_str(), std::invalid_argument);
    };
    rows::RowShape shape = two_fields();
    refused(shape, 0, "batch size 0 is not 1 to 1048576");
    refused(shape, 10, "the table of regions has other arrays than this writer makes");
    shape.tables = {{"low", 0, 1}, {"again", 0, 1}};
    refused(shape, 10, "field 'low' has two tables");
    shape.tables = {{"low", 0, 1}};
    refused(shape, 10, "a field has no table");
    shape.tables = {{"low", 0, 1}, {"high", 2, 2}};
    refused(shape, 10, "table 'high' has no fields");
    shape.tables = {{"both", 0, 2}};
    refused(shape, 10, "field 'high' can't share the table of 'low'");
    shape.fields[0].values = true;
    shape.fields[1].max_active = 1U << 31;
    refused(shape, 1, "table 'both': 2 bags of 2147483648 features are more than 2^32 - 1");
    shape.fields[1].begin = 9;
    refused(shape, 10, "field 'high' overlaps another, or is empty");
}
