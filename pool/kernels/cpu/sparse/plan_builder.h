#pragma once

#include <vector>

#include "base/matrix.h"
#include "sparse/kernels.h"

// Builds the arrays of a SparsePlan: first the tiles, then what each tile's bags read and its rows receive.
namespace sparsepool {

struct PlanArrays {
    bool is_worthwhile = false;          // if not, the arrays are empty
    std::size_t max_slab_rows = 0;       // of a tile's slab, with the row of zeros and the sums
    std::vector<std::uint32_t> bags;     // tile after tile, ascending within each
    std::vector<std::uint32_t> rows;     // table rows by tile
    std::vector<std::uint8_t> seen;      // of each row: whether an earlier tile has it too
    std::vector<std::uint16_t> grouped;  // rows of the groups, tile after tile, as numbers within the tile
    std::vector<PlanTile> tiles;
    std::vector<PlanChunk> chunks;
    std::vector<SumQuad> bag_quads;
    std::vector<std::uint16_t> bag_terms;  // rows of the tile's slab
    std::vector<SumQuad> row_quads;
    std::vector<std::uint16_t> row_terms;  // bags of the chunk, counted from 1
};

// offsets and features are checked, each feature below num_features. `order`: all bags, such that neighbours share
// features.
PlanArrays build_plan(Offsets offsets, const Numbers& features, std::size_t num_features,
                      const std::vector<std::uint32_t>& order);

}  // namespace sparsepool
