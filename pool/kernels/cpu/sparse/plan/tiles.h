#pragma once

#include <vector>

#include "arrays/matrix.h"

// Which bags of a batch belong together because they share rows.
namespace sparsepool {

// Fetches the features of the bag that is visited eight bags after this one: in tile order bags lie far apart.
template <class Number>
[[gnu::always_inline]] inline void fetch_ahead(const std::vector<std::uint32_t>& bags, std::size_t place,
                                               const std::uint32_t* offsets, const Number* features) {
    constexpr std::size_t kAhead = 8;
    constexpr std::size_t kLine = 64 / sizeof(Number);
    if (place + kAhead < bags.size()) {
        const Number* wanted = features + offsets[bags[place + kAhead]];
        __builtin_prefetch(wanted);
        __builtin_prefetch(wanted + kLine);
    }
}

struct Tile {
    std::uint32_t first_row, rows;
    std::uint32_t first_bag, last_bag;
};

struct Tiles {
    static constexpr std::size_t kCounted =
        4;  // every so many bags their uses are counted: that is enough to choose by

    bool worth = false;  // whether the rows of a tile are used often enough to pay for their copies
    std::vector<Tile> tiles;
    std::vector<std::uint32_t> bags;  // tile after tile, ascending within each
    std::vector<std::uint32_t> rows;  // the features that a tile's bags have, tile after tile
    std::vector<std::uint32_t> uses;  // of each: by how many of the tile's bags that are counted
    std::vector<std::uint8_t> seen;   // of each: whether a tile before has it too
};

// offsets and features are sound, each feature below num_features; `order` is all bags.
Tiles find_tiles(Offsets offsets, const Numbers& features, std::size_t num_features,
                 const std::vector<std::uint32_t>& order);

}  // namespace sparsepool
