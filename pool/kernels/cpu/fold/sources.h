#pragma once

#include <vector>

#include "fold/kernels.h"
#include "fold/tree.h"

// Gradients that are added up along the tree (tree.h), and where in it each stands.
namespace sparsepool {

struct Sources {
    std::vector<Source> all;
    std::vector<std::uint32_t> places;  // strictly ascending
};

// numbers(entry) is the Source of an entry.
inline Held held_by(const auto& entries, const auto& numbers) {
    std::size_t narrow = 0;
    for (const auto& entry : entries) narrow += numbers(entry).bfloat16 ? 1 : 0;
    if (narrow == 0) return Held::kFloat32;
    return narrow == entries.size() ? Held::kBFloat16 : Held::kBoth;
}

// What is joined after which source; for kernels.
class Joins {
  public:
    explicit Joins(const Sources& sources)
        : joins_(sources.places.size()), held_(held_by(sources.all, [](const Source& source) { return source; })) {
        find_joins(sources.places.data(), sources.places.size(), joins_.data());
    }

    Addends of(const Sources& sources) const { return {sources.all.data(), joins_.data(), joins_.size()}; }
    Held held() const { return held_; }

  private:
    std::vector<std::uint8_t> joins_;
    Held held_;
};

}  // namespace sparsepool
