#pragma once

#include <vector>

#include "fold/kernels.h"
#include "fold/tree.h"

// Gradients that are added up along the tree (tree.h), and where in it each stands.
namespace sparsepool {

struct Sources {
    std::vector<const float*> floats;
    std::vector<std::uint32_t> places;  // strictly ascending
};

// What is joined after which source; for kernels.
class Joins {
  public:
    explicit Joins(const Sources& sources) : joins_(sources.places.size()) {
        find_joins(sources.places.data(), sources.places.size(), joins_.data());
    }

    Addends of(const Sources& sources) const { return {sources.floats.data(), joins_.data(), joins_.size()}; }

  private:
    std::vector<std::uint8_t> joins_;
};

}  // namespace sparsepool
