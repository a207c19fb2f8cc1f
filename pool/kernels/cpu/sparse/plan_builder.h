#pragma once

#include <vector>

#include "base/matrix.h"
#include "sparse/kernels.h"

// Makes the arrays of a SparsePlan: tiles first, then tile by tile what its bags read and its rows receive.
namespace sparsepool {

struct PlanArrays {
    bool worth = false;                  // if not, the rest is of no use
    std::size_t most_rows = 0;           // of a tile's slab, zeros and sums included
    std::vector<std::uint32_t> bags;     // by place: tile after tile, ascending within each
    std::vector<std::uint32_t> rows;     // table rows by tile
    std::vector<std::uint8_t> seen;      // of each: whether a tile before has it too
    std::vector<std::uint16_t> grouped;  // rows of the groups, tile after tile, as numbers within the tile
    std::vector<PlanTile> tiles;
    std::vector<PlanChunk> chunks;
    std::vector<SumQuad> bag_quads;
    std::vector<std::uint16_t> bag_terms;  // rows of the tile's slab
    std::vector<SumQuad> row_quads;
    std::vector<std::uint16_t> row_terms;  // places within the chunk, from 1 on
};

// offsets and features are sound, each feature below num_features; `order` is all bags, such that neighbours share
// features.
PlanArrays build_plan(Offsets offsets, const Numbers& features, std::size_t num_features,
                      const std::vector<std::uint32_t>& order);

}  // namespace sparsepool
