#include "tasks/chess/cpu/integer_layers.h"

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>

#include "common/parallel.h"

namespace sparsepool::chess {
namespace {

using Features = std::span<const std::uint32_t>;

Features features_of(const SideBags& side, std::size_t position) {
    return {side.features + side.offsets.data[position], side.features + side.offsets.data[position + 1]};
}

// Adds `count` times a row. In unsigned numbers, which may overflow.
template <class Sum, class Element>
void add(Sum* sum, const Element* row, Sum count, std::size_t columns) {
    for (std::size_t column = 0; column < columns; ++column) {
        sum[column] = static_cast<Sum>(sum[column] + std::uint32_t{count} * static_cast<Sum>(row[column]));
    }
}

// Adds `count` times the row of a feature; a negative count subtracts it. False if no table has the feature.
template <class Sum, class Element>
bool add_feature(const std::vector<IntegerTable<Element>>& tables, std::uint32_t feature, std::int32_t count, Sum* sum,
                 std::size_t columns) {
    for (const auto& table : tables) {
        if (feature < table.first || feature - table.first >= table.rows) continue;
        add(sum, table.weights + (feature - table.first) * columns, static_cast<Sum>(count), columns);
        return true;
    }
    return false;
}

template <class Element>
std::size_t count_features(const std::vector<IntegerTable<Element>>& tables) {
    std::size_t end = 0;
    for (const auto& table : tables) end = std::max(end, table.first + table.rows);
    return end;
}

// Finds the features to add and to subtract that turn the sum of some features into the sum of others.
class FeatureChanges {
  public:
    explicit FeatureChanges(std::size_t num_features) : counts_(num_features) {}

    struct Change {
        std::uint32_t feature;
        std::int32_t count;  // how often to add the feature
    };

    const std::vector<Change>& find(Features from, Features to) {
        count(from, -1);
        count(to, 1);
        changes_.clear();
        collect(from);
        collect(to);
        return changes_;
    }

  private:
    void count(Features features, std::int32_t step) {
        for (const std::uint32_t feature : features) {
            if (feature < counts_.size()) counts_[feature] += step;
        }
    }

    void collect(Features features) {
        for (const std::uint32_t feature : features) {
            if (feature >= counts_.size()) continue;
            const std::int32_t count = std::exchange(counts_[feature], 0);
            if (count != 0) changes_.push_back({feature, count});
        }
    }

    std::vector<std::int32_t> counts_;  // by feature; zeros between calls
    std::vector<Change> changes_;
};

// Computes the sums of both sides. Those of a position are made of the previous position's sums if that takes fewer
// additions: the sides change places from one position of a game to the next. add_row(feature, count, sum) adds a row.
template <class Out, class AddRow>
void sum_sides(const Out* start, const std::array<SideBags, 2>& sides, std::array<Out*, 2> out, std::size_t columns,
               std::size_t threads, std::size_t num_features, const AddRow& add_row) {
    using Sum = std::make_unsigned_t<Out>;
    const std::size_t positions = sides[0].offsets.size - 1;
    const auto sum_from_start = [&](Features features, Sum* sum) {
        if (start == nullptr) {
            std::fill_n(sum, columns, Sum{0});
        } else {
            std::copy_n(reinterpret_cast<const Sum*>(start), columns, sum);
        }
        for (const std::uint32_t feature : features) add_row(feature, 1, sum);
    };
    run_parts(threads, [&](std::size_t part) {
        FeatureChanges changes(num_features);
        const std::size_t first = border(positions, 1, part, threads);
        const std::size_t last = border(positions, 1, part + 1, threads);
        for (std::size_t position = first; position < last; ++position) {
            for (std::size_t side = 0; side < 2; ++side) {
                const Features features = features_of(sides[side], position);
                Sum* sum = reinterpret_cast<Sum*>(out[side] + position * columns);
                if (position == first) {
                    sum_from_start(features, sum);
                    continue;
                }
                const std::size_t previous = position - 1;
                const auto& changed = changes.find(features_of(sides[1 - side], previous), features);
                if (changed.size() >= features.size()) {
                    sum_from_start(features, sum);
                    continue;
                }
                const Out* previous_sum = out[1 - side] + previous * columns;
                std::copy_n(reinterpret_cast<const Sum*>(previous_sum), columns, sum);
                for (const auto& change : changed) add_row(change.feature, change.count, sum);
            }
        }
    });
}

// Computes one output after another, for few outputs.
template <class Input, class Weight>
void add_products_by_output(const Input* inputs, std::size_t depth, const Weight* weight, std::size_t outputs,
                            std::uint32_t* sums) {
    for (std::size_t output = 0; output < outputs; ++output, weight += depth) {
        std::uint32_t sum = 0;
        for (std::size_t i = 0; i < depth; ++i) {
            sum += std::uint32_t{inputs[i]} * static_cast<std::uint32_t>(std::int32_t{weight[i]});
        }
        sums[output] += sum;
    }
}

// Adds the products of one input after another to all outputs, for many outputs. Skips inputs that are 0. columns
// [depth, outputs].
template <class Input>
void add_products_by_input(const Input* inputs, std::size_t depth, const std::uint32_t* columns, std::size_t outputs,
                           std::uint32_t* sums) {
    for (std::size_t i = 0; i < depth; ++i, columns += outputs) {
        const std::uint32_t input = inputs[i];
        if (input == 0) continue;
        for (std::size_t output = 0; output < outputs; ++output) sums[output] += input * columns[output];
    }
}

template <class Weight>
std::vector<std::uint32_t> transposed(const Weight* weight, std::size_t outputs, std::size_t depth) {
    std::vector<std::uint32_t> columns(depth * outputs);
    for (std::size_t output = 0; output < outputs; ++output) {
        for (std::size_t i = 0; i < depth; ++i, ++weight) {
            columns[i * outputs + output] = static_cast<std::uint32_t>(std::int32_t{*weight});
        }
    }
    return columns;
}

constexpr std::size_t kFewOutputs = 4;  // with fewer, a transposed weight does not pay

}  // namespace

void sum_rows(const IntegerTables& tables, const std::int16_t* start, const std::array<SideBags, 2>& sides,
              std::array<std::int16_t*, 2> out, std::size_t columns, std::size_t threads) {
    const std::size_t num_features = std::max(count_features(tables.wide), count_features(tables.narrow));
    sum_sides(start, sides, out, columns, threads, num_features,
              [&](std::uint32_t feature, std::int32_t count, std::uint16_t* sum) {
                  if (add_feature(tables.wide, feature, count, sum, columns)) return;
                  add_feature(tables.narrow, feature, count, sum, columns);
              });
}

void sum_rows(const std::vector<IntegerTable<std::int32_t>>& tables, const std::array<SideBags, 2>& sides,
              std::array<std::int32_t*, 2> out, std::size_t columns, std::size_t threads) {
    sum_sides<std::int32_t>(nullptr, sides, out, columns, threads, count_features(tables),
                            [&](std::uint32_t feature, std::int32_t count, std::uint32_t* sum) {
                                add_feature(tables, feature, count, sum, columns);
                            });
}

template <class Input, class Weight>
void add_products(const Input* inputs, std::size_t samples, std::size_t depth, const Weight* weight,
                  const std::int32_t* bias, std::size_t outputs, std::int32_t* out) {
    const bool has_few_outputs = outputs < kFewOutputs;
    std::vector<std::uint32_t> columns;
    if (!has_few_outputs) columns = transposed(weight, outputs, depth);
    for (std::size_t sample = 0; sample < samples; ++sample, inputs += depth, out += outputs) {
        auto* sums = reinterpret_cast<std::uint32_t*>(out);
        std::copy_n(bias, outputs, out);
        if (has_few_outputs) {
            add_products_by_output(inputs, depth, weight, outputs, sums);
        } else {
            add_products_by_input(inputs, depth, columns.data(), outputs, sums);
        }
    }
}

template void add_products(const std::uint16_t*, std::size_t, std::size_t, const std::int8_t*, const std::int32_t*,
                           std::size_t, std::int32_t*);
template void add_products(const std::uint16_t*, std::size_t, std::size_t, const std::int16_t*, const std::int32_t*,
                           std::size_t, std::int32_t*);
template void add_products(const std::uint32_t*, std::size_t, std::size_t, const std::int8_t*, const std::int32_t*,
                           std::size_t, std::int32_t*);
template void add_products(const std::uint32_t*, std::size_t, std::size_t, const std::int16_t*, const std::int32_t*,
                           std::size_t, std::int32_t*);

}  // namespace sparsepool::chess
