#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "chess/record.h"

// What of a position is an input of the network: the interface of all feature sets.
namespace sparsepool::features {

// Where a run of bags is written. The number type is uint16 for sets of up to 65,536 inputs, else uint32.
struct Bags {
    std::uint32_t* ends = nullptr;  // [records]: end of each bag, counted from `features`
    void* features = nullptr;       // room for records * max_active numbers
};

// A set of inputs, seen by either side: "own" is the side to move. Immutable; any number of threads may use it.
class FeatureSet {
  public:
    virtual ~FeatureSet() = default;
    FeatureSet() = default;
    FeatureSet(const FeatureSet&) = delete;
    FeatureSet& operator=(const FeatureSet&) = delete;

    [[nodiscard]] virtual std::string_view name() const = 0;
    [[nodiscard]] virtual std::uint32_t num_inputs() const = 0;
    [[nodiscard]] virtual std::uint32_t max_active() const = 0;  // of one perspective of one position

    // Both perspectives of each record. Records must have one king a side. The order within a bag is the
    // set's own, but always the same for the same record; no feature occurs twice in a bag.
    virtual void extract(std::span<const chess::Record> records, Bags own, Bags opponent) const = 0;

    [[nodiscard]] bool wide() const { return num_inputs() > 1U << 16; }
};

// The set of that name, or null. Sets live as long as the process.
[[nodiscard]] const FeatureSet* find_feature_set(std::string_view name);

[[nodiscard]] std::vector<std::string_view> feature_set_names();

}  // namespace sparsepool::features
