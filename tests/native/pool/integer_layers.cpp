#include "tasks/chess/cpu/integer_layers.h"

#include <doctest/doctest.h>

#include <array>
#include <random>
#include <vector>

using namespace sparsepool;
using namespace sparsepool::chess;

namespace {

// Positions of a game: from one to the next the sides change places, and few features do.
struct Game {
    std::array<std::vector<std::uint32_t>, 2> features;
    std::array<std::vector<std::uint32_t>, 2> offsets{std::vector<std::uint32_t>{0}, std::vector<std::uint32_t>{0}};

    Game(std::size_t positions, std::size_t active, std::uint32_t most, std::mt19937& random) {
        std::array<std::vector<std::uint32_t>, 2> seen{std::vector<std::uint32_t>(active, 0), {}};
        for (std::size_t position = 0; position < positions; ++position) {
            std::swap(seen[0], seen[1]);
            for (std::size_t side = 0; side < 2; ++side) {
                auto& now = seen[side];
                if (random() % 8 == 0) now.clear();
                if (!now.empty()) now[random() % now.size()] = random() % most;
                if (now.size() < active) now.push_back(random() % most);
                features[side].insert(features[side].end(), now.begin(), now.end());
                offsets[side].push_back(static_cast<std::uint32_t>(features[side].size()));
            }
        }
    }

    std::array<SideBags, 2> sides() const {
        return {SideBags{features[0].data(), {offsets[0].data(), offsets[0].size()}},
                SideBags{features[1].data(), {offsets[1].data(), offsets[1].size()}}};
    }
};

}  // namespace

TEST_CASE("sums of a position from those of the one before are those of its features") {
    std::mt19937 random(1);
    constexpr std::size_t kColumns = 37, kPositions = 300;
    std::vector<std::int8_t> narrow(10 * kColumns);
    std::vector<std::int16_t> wide(20 * kColumns), start(kColumns);
    for (auto& number : narrow) number = static_cast<std::int8_t>(random());
    for (auto* numbers : {&wide, &start}) {
        for (auto& number : *numbers) number = static_cast<std::int16_t>(random());
    }
    // features 0 and 1, 22 to 24, and those from 35 on are in no table
    const IntegerTables tables{{{narrow.data(), 25, 10}}, {{wide.data(), 2, 20}}};
    const Game game(kPositions, 12, 40, random);
    std::vector<std::int16_t> own(kPositions * kColumns), opponent(own.size());
    for (const std::size_t threads : {1U, 3U}) {
        sum_rows(tables, start.data(), game.sides(), {own.data(), opponent.data()}, kColumns, threads);
        std::size_t wrong = 0;
        for (std::size_t side = 0; side < 2; ++side) {
            const auto& got = side == 0 ? own : opponent;
            for (std::size_t place = 0; place < got.size(); ++place) {
                const std::size_t position = place / kColumns, column = place % kColumns;
                std::uint32_t sum = static_cast<std::uint16_t>(start[column]);
                for (auto i = game.offsets[side][position]; i < game.offsets[side][position + 1]; ++i) {
                    const std::uint32_t feature = game.features[side][i];
                    if (feature >= 2 && feature < 22)
                        sum += static_cast<std::uint16_t>(wide[(feature - 2) * kColumns + column]);
                    if (feature >= 25 && feature < 35)
                        sum += static_cast<std::uint16_t>(narrow[(feature - 25) * kColumns + column]);
                }
                wrong += static_cast<std::uint16_t>(got[place]) != static_cast<std::uint16_t>(sum) ? 1 : 0;
            }
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("products of few and of many outputs wrap alike") {
    std::mt19937 random(2);
    constexpr std::size_t kSamples = 5, kDepth = 19, kMost = 9;
    std::vector<std::uint32_t> inputs(kSamples * kDepth);
    std::vector<std::int16_t> weight(kMost * kDepth);
    std::vector<std::int32_t> bias(kMost);
    for (auto& number : inputs) number = random() % 2 == 0 ? 0 : random();
    for (auto& number : weight) number = static_cast<std::int16_t>(random());
    for (auto& number : bias) number = static_cast<std::int32_t>(random());
    std::vector<std::int32_t> many(kSamples * kMost);
    add_products(inputs.data(), kSamples, kDepth, weight.data(), bias.data(), kMost, many.data());
    for (std::size_t output = 0; output < kMost; ++output) {
        std::vector<std::int32_t> one(kSamples);
        add_products(inputs.data(), kSamples, kDepth, weight.data() + output * kDepth, &bias[output], 1, one.data());
        for (std::size_t sample = 0; sample < kSamples; ++sample) CHECK(one[sample] == many[sample * kMost + output]);
    }
}
