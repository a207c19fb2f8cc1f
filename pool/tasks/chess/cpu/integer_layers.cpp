#include "tasks/chess/cpu/integer_layers.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "common/parallel.h"

namespace sparsepool::chess {
namespace {

using Features = std::pair<const std::uint32_t*, const std::uint32_t*>;  // the first, and behind the last

Features features_of(const SideBags& side, std::size_t position) {
    return {side.features + side.offsets.data[position], side.features + side.offsets.data[position + 1]};
}

// Unsigned, as signed sums may not overflow.
template <class Sum, class Element>
void add(Sum* sum, const Element* row, Sum times, std::size_t columns) {
    for (std::size_t column = 0; column < columns; ++column) {
        sum[column] = static_cast<Sum>(sum[column] + std::uint32_t{times} * static_cast<Sum>(row[column]));
    }
}

// Adds the row of a feature `times` times, which may be less than none.
template <class Sum, class Element>
bool add_from(const std::vector<IntegerTable<Element>>& tables, std::uint32_t feature, std::int32_t times, Sum* sum,
              std::size_t columns) {
    for (const auto& table : tables) {
        if (feature < table.first || feature - table.first >= table.rows) continue;
        add(sum, table.weights + (feature - table.first) * columns, static_cast<Sum>(times), columns);
        return true;
    }
    return false;
}

template <class Element>
std::size_t features_in(const std::vector<IntegerTable<Element>>& tables) {
    std::size_t end = 0;
    for (const auto& table : tables) end = std::max(end, table.first + table.rows);
    return end;
}

// What to add to the sum of some features for that of others.
class Changes {
  public:
    explicit Changes(std::size_t features) : times_(features) {}

    struct Change {
        std::uint32_t feature;
        std::int32_t times;
    };

    const std::vector<Change>& between(Features from, Features to) {
        count(from, -1);
        count(to, 1);
        changes_.clear();
        collect(from);
        collect(to);
        return changes_;
    }

  private:
    void count(Features features, std::int32_t times) {
        for (const auto* feature = features.first; feature != features.second; ++feature) {
            if (*feature < times_.size()) times_[*feature] += times;
        }
    }

    void collect(Features features) {
        for (const auto* feature = features.first; feature != features.second; ++feature) {
            if (*feature >= times_.size()) continue;
            if (const std::int32_t times = std::exchange(times_[*feature], 0)) changes_.push_back({*feature, times});
        }
    }

    std::vector<std::int32_t> times_;  // by feature; zeros between calls
    std::vector<Change> changes_;
};

template <class Out, class AddFeature>
void sum_sides(const Out* start, const std::array<SideBags, 2>& sides, std::array<Out*, 2> out, std::size_t columns,
               std::size_t threads, std::size_t features, const AddFeature& add_feature) {
    using Sum = std::make_unsigned_t<Out>;
    const std::size_t positions = sides[0].offsets.size - 1;
    run_parts(threads, [&](std::size_t part) {
        Changes changes(features);
        const std::size_t first = border(positions, 1, part, threads), last = border(positions, 1, part + 1, threads);
        for (std::size_t position = first; position < last; ++position) {
            for (std::size_t side = 0; side < 2; ++side) {
                const Features own = features_of(sides[side], position);
                Sum* sum = reinterpret_cast<Sum*>(out[side] + position * columns);
                if (position > first) {
                    const auto& changed = changes.between(features_of(sides[1 - side], position - 1), own);
                    if (changed.size() < static_cast<std::size_t>(own.second - own.first)) {
                        const Out* before = out[1 - side] + (position - 1) * columns;
                        std::copy_n(reinterpret_cast<const Sum*>(before), columns, sum);
                        for (const auto& change : changed) add_feature(change.feature, change.times, sum);
                        continue;
                    }
                }
                if (start == nullptr) {
                    std::fill_n(sum, columns, Sum{0});
                } else {
                    std::copy_n(reinterpret_cast<const Sum*>(start), columns, sum);
                }
                for (const auto* feature = own.first; feature != own.second; ++feature) add_feature(*feature, 1, sum);
            }
        }
    });
}

// Of few outputs, one after the other.
template <class Input, class Weight>
void add_products_by_output(const Input* inputs, std::size_t depth, const Weight* weight, std::size_t outputs,
                            std::uint32_t* sums) {
    for (std::size_t output = 0; output < outputs; ++output, weight += depth) {
        std::uint32_t sum = 0;
        for (std::size_t place = 0; place < depth; ++place) {
            sum += std::uint32_t{inputs[place]} * static_cast<std::uint32_t>(std::int32_t{weight[place]});
        }
        sums[output] += sum;
    }
}

// Of many, all of an input at once, and those that are 0 not at all. columns [depth, outputs].
template <class Input>
void add_products_by_input(const Input* inputs, std::size_t depth, const std::uint32_t* columns, std::size_t outputs,
                           std::uint32_t* sums) {
    for (std::size_t place = 0; place < depth; ++place, columns += outputs) {
        const std::uint32_t input = inputs[place];
        if (input == 0) continue;
        for (std::size_t output = 0; output < outputs; ++output) sums[output] += input * columns[output];
    }
}

template <class Weight>
std::vector<std::uint32_t> transposed(const Weight* weight, std::size_t outputs, std::size_t depth) {
    std::vector<std::uint32_t> columns(depth * outputs);
    for (std::size_t output = 0; output < outputs; ++output) {
        for (std::size_t place = 0; place < depth; ++place, ++weight) {
            columns[place * outputs + output] = static_cast<std::uint32_t>(std::int32_t{*weight});
        }
    }
    return columns;
}

constexpr std::size_t kFew = 4;  // outputs

}  // namespace

void sum_rows(const IntegerTables& tables, const std::int16_t* start, const std::array<SideBags, 2>& sides,
              std::array<std::int16_t*, 2> out, std::size_t columns, std::size_t threads) {
    const std::size_t features = std::max(features_in(tables.wide), features_in(tables.narrow));
    sum_sides(start, sides, out, columns, threads, features,
              [&](std::uint32_t feature, std::int32_t times, std::uint16_t* sum) {
                  if (add_from(tables.wide, feature, times, sum, columns)) return;
                  add_from(tables.narrow, feature, times, sum, columns);
              });
}

void sum_rows(const std::vector<IntegerTable<std::int32_t>>& tables, const std::array<SideBags, 2>& sides,
              std::array<std::int32_t*, 2> out, std::size_t columns, std::size_t threads) {
    sum_sides<std::int32_t>(nullptr, sides, out, columns, threads, features_in(tables),
                            [&](std::uint32_t feature, std::int32_t times, std::uint32_t* sum) {
                                add_from(tables, feature, times, sum, columns);
                            });
}

template <class Input, class Weight>
void add_products(const Input* inputs, std::size_t samples, std::size_t depth, const Weight* weight,
                  const std::int32_t* bias, std::size_t outputs, std::int32_t* out) {
    const bool few = outputs < kFew;
    const auto columns = few ? std::vector<std::uint32_t>() : transposed(weight, outputs, depth);
    for (std::size_t sample = 0; sample < samples; ++sample, inputs += depth, out += outputs) {
        auto* sums = reinterpret_cast<std::uint32_t*>(out);
        std::copy_n(bias, outputs, out);
        if (few) {
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
