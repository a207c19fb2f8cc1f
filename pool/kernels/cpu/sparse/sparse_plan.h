#pragma once

#include "base/matrix.h"
#include "sparse/plan_builder.h"

// A plan of how to sum the bags of one batch with few reads. It is made once and used by every layer, in both
// directions.
//
// Bags whose features overlap are gathered in a tile (in chess, those whose king is on the same square). The rows that
// a tile uses are copied, 128 columns at a time, so that they lie close together in the second cache however long the
// table's rows are. Two things then save reads:
//   - The rows that most bags of the tile have are put in groups of 6. Forward, all 64 sums of a group's rows are
//     computed once, and a bag adds one of them instead of up to six rows; backward likewise in reverse. On a batch of
//     chess positions a bag then reads 13 rows instead of 19.
//   - Sums of similar length are computed side by side, four in a quad, in one loop.
// The order in which the terms of a sum are added depends on the batch alone.
namespace sparsepool {

class SparsePlan {
  public:
    // offsets [bags + 1] from 0 to features.size; each feature below num_features. std::invalid_argument if not.
    SparsePlan(Offsets offsets, Numbers features, std::size_t num_features);

    // Whether the rows of a tile are used often enough to pay for their copies.
    bool is_worthwhile() const { return arrays_.is_worthwhile; }

    // out[i] = bias (null: zeros) + the rows of bag i.
    void forward(ConstMatrix weight, const float* bias, Matrix out, std::size_t threads) const;

    std::size_t num_tiles() const { return arrays_.tiles.size(); }

    // How many tiles backward has to do until no row below `row` changes any more.
    std::size_t tiles_until(std::size_t row) const;

    // Row f of grad_weight = sum of the rows of grad_out of the bags with feature f, for every feature that a bag
    // has; the others are left as they are. column_sums[c] = sum of column c of grad_out: the bias's gradient.
    // Tiles first_tile .. last_tile only: all of them have to be done, once each and in order.
    void backward(ConstMatrix grad_out, Matrix grad_weight, float* column_sums, std::size_t first_tile,
                  std::size_t last_tile, std::size_t threads) const;

    // For other passes along the plan.
    PlanView view() const;
    std::size_t num_features() const { return num_features_; }
    std::size_t num_bags() const { return bags_; }
    std::size_t num_rows() const { return arrays_.rows.size(); }         // of all tiles
    std::size_t max_slab_rows() const { return arrays_.max_slab_rows; }  // of a tile's slab

  private:
    std::size_t num_features_;
    std::size_t bags_;
    PlanArrays arrays_;
};

}  // namespace sparsepool
