// Which bags of a batch belong together because they share rows.
#pragma once

#include <vector>

#include "matrix.h"

namespace sparsepool {

struct Tile {
    std::uint32_t first_row, rows;
    std::uint32_t first_bag, last_bag;
};

struct Tiles {
    bool worth = false;               // whether the rows of a tile are used often enough to pay for their copies
    std::vector<Tile> tiles;
    std::vector<std::uint32_t> bags;  // tile after tile, ascending within each
    std::vector<std::uint32_t> rows;  // the features that a tile's bags have, tile after tile
    std::vector<std::uint32_t> uses;  // of each: in how many of the tile's bags
    std::vector<std::uint8_t> seen;   // of each: whether a tile before has it too
};

// offsets and features are sound, each feature below num_features, no bag longer than 127; `order` is all bags.
Tiles find_tiles(Offsets offsets, const Numbers& features, std::size_t num_features,
                 const std::vector<std::uint32_t>& order);

}  // namespace sparsepool
