#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <vector>

#include "batch/columns.h"
#include "batch/regions.h"
#include "chess/native/batch/layout.h"
#include "chess/native/filters/win_draw_loss.h"

using namespace sparsepool;

TEST_CASE("columns say what rows say, features and bags ascending") {
    const std::vector<std::uint32_t> offsets = {0, 3, 3, 5, 6};
    const std::vector<std::uint16_t> features = {9, 2, 5, 2, 7, 5};
    std::vector<std::uint32_t> counts(10);
    std::vector<std::uint16_t> lists(6);
    std::vector<std::uint16_t> touched(6);
    std::vector<std::uint16_t> bags(6);
    std::vector<std::uint32_t> ends(7);
    const auto count =
        batch::count_columns(offsets.data(), 4, features.data(), 10, counts.data(), lists.data(),
                             batch::Columns<std::uint16_t, std::uint16_t>{touched.data(), ends.data(), bags.data()});
    REQUIRE(count == 4);
    CHECK(std::vector(touched.begin(), touched.begin() + 4) == std::vector<std::uint16_t>{2, 5, 7, 9});
    CHECK(std::vector(ends.begin(), ends.begin() + 5) == std::vector<std::uint32_t>{0, 2, 4, 5, 6});
    CHECK(bags == std::vector<std::uint16_t>{0, 2, 0, 3, 2, 0});
    CHECK(std::ranges::all_of(counts, [](std::uint32_t left) { return left == 0; }));
}

TEST_CASE("values go with their features into the columns") {
    const std::vector<std::uint32_t> offsets = {0, 3, 3, 5, 6};
    const std::vector<std::uint16_t> features = {9, 2, 5, 2, 7, 5};
    const std::vector<float> rows = {0.9F, -0.2F, 0.0F, 22.0F, 0.7F, 55.0F};
    std::vector<float> columns(6);
    std::vector<std::uint32_t> counts(10);
    std::vector<std::uint16_t> lists(6);
    std::vector<std::uint16_t> touched(6);
    std::vector<std::uint16_t> bags(6);
    std::vector<std::uint32_t> ends(7);
    const batch::ColumnValues values{rows.data(), columns.data()};
    batch::count_columns(offsets.data(), 4, features.data(), 10, counts.data(), lists.data(),
                         batch::Columns<std::uint16_t, std::uint16_t>{touched.data(), ends.data(), bags.data()},
                         &values);
    CHECK(bags == std::vector<std::uint16_t>{0, 2, 0, 3, 2, 0});
    CHECK(columns == std::vector<float>{-0.2F, 22.0F, 0.0F, 55.0F, 0.7F, 0.9F});
}

TEST_CASE("a table of regions is taken over only if nothing can be written past one") {
    batch::Region a;
    batch::Region b;
    const batch::ExpectedArray expected[] = {{"a", 4, 10, &a}, {"b", 8, 3, &b}};
    const batch::Regions good = {{"a", {0, 10, 4}}, {"b", {64, 3, 8}}};
    batch::read_regions(good, 88, expected);
    CHECK(a.count == 10);
    CHECK(b.offset == 64);
    const auto refused = [&](const char* said, std::uint64_t slot_bytes, const batch::Regions& regions) {
        CHECK_THROWS_WITH_AS(batch::read_regions(regions, slot_bytes, expected), said, std::invalid_argument);
    };
    refused("region 'b' has another type, size or place than it must", 87, good);
    refused("region 'b' begins inside another one", 200, {{"a", {0, 10, 4}}, {"b", {32, 3, 8}}});
    refused("region 'a' has another type, size or place than it must", 200, {{"a", {2, 10, 4}}, {"b", {64, 3, 8}}});
    refused("the table of regions lacks 'b'", 200, {{"a", {0, 10, 4}}, {"c", {64, 3, 8}}});
    refused("the table of regions has other arrays than this writer makes", 200, {{"a", {0, 10, 4}}});
}

TEST_CASE("the tables of win rates decide as the exact model does") {
    const chess::WinDrawLossTables& tables = chess::WinDrawLossTables::get();
    for (const unsigned ply : {0U, 40U, 239U, 240U, 1000U}) {
        for (int score = -4000; score <= 4000; score += 250) {
            for (const int result : {-1, 0, 1}) {
                const double probability = chess::win_draw_loss_probability(ply, score, result);
                CHECK(probability >= -1e-12);
                CHECK(probability <= 1 + 1e-12);
                const std::uint64_t threshold = chess::threshold_of(probability);
                for (const std::int64_t apart : {-1, 0, 1}) {
                    const std::int64_t word = static_cast<std::int64_t>(threshold) + apart;
                    if (word < 0 || word > 0xFFFFFFFF) continue;
                    const auto drawn = static_cast<std::uint32_t>(word);
                    CHECK(tables.keeps(drawn, ply, score, result) == (drawn < threshold));
                }
            }
        }
    }
}
