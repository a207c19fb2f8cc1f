#include "tasks/chess/cpu/integer_sums.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "common/parallel.h"

namespace sparsepool::chess {
namespace {

// Unsigned, as signed sums may not overflow.
template <class Sum, class Element>
void add(Sum* sum, const Element* row, std::size_t columns) {
    for (std::size_t column = 0; column < columns; ++column) {
        sum[column] = static_cast<Sum>(sum[column] + static_cast<Sum>(row[column]));
    }
}

template <class Sum, class Element>
bool add_from(const std::vector<IntegerTable<Element>>& tables, std::uint32_t feature, Sum* sum, std::size_t columns) {
    for (const auto& table : tables) {
        if (feature >= table.first && feature - table.first < table.rows) {
            add(sum, table.weights + (feature - table.first) * columns, columns);
            return true;
        }
    }
    return false;
}

template <class Out, class AddFeature>
void sum_bags(const Out* start, const std::uint32_t* features, Offsets offsets, Out* out, std::size_t columns,
              std::size_t threads, const AddFeature& add_feature) {
    using Sum = std::make_unsigned_t<Out>;
    const std::size_t bags = offsets.size - 1;
    run_parts(threads, [&](std::size_t part) {
        const std::size_t last = border(bags, 1, part + 1, threads);
        for (std::size_t bag = border(bags, 1, part, threads); bag < last; ++bag) {
            Sum* sum = reinterpret_cast<Sum*>(out + bag * columns);
            if (start == nullptr) {
                std::fill_n(sum, columns, Sum{0});
            } else {
                std::copy_n(start, columns, out + bag * columns);
            }
            for (std::uint32_t i = offsets.data[bag]; i < offsets.data[bag + 1]; ++i) add_feature(features[i], sum);
        }
    });
}

}  // namespace

void sum_rows(const IntegerTables& tables, const std::int16_t* start, const std::uint32_t* features, Offsets offsets,
              std::int16_t* out, std::size_t columns, std::size_t threads) {
    sum_bags(start, features, offsets, out, columns, threads, [&](std::uint32_t feature, std::uint16_t* sum) {
        if (!add_from(tables.wide, feature, sum, columns)) add_from(tables.narrow, feature, sum, columns);
    });
}

void sum_rows(const std::vector<IntegerTable<std::int32_t>>& tables, const std::uint32_t* features, Offsets offsets,
              std::int32_t* out, std::size_t columns, std::size_t threads) {
    sum_bags<std::int32_t>(nullptr, features, offsets, out, columns, threads,
                           [&](std::uint32_t feature, std::uint32_t* sum) { add_from(tables, feature, sum, columns); });
}

void add_products(const std::uint16_t* inputs, std::size_t samples, std::size_t depth, const std::int8_t* weight,
                  const std::int32_t* bias, std::size_t outputs, std::int32_t* out) {
    std::vector<std::uint32_t> columns(depth * outputs);
    for (std::size_t output = 0; output < outputs; ++output) {
        for (std::size_t place = 0; place < depth; ++place) {
            columns[place * outputs + output] =
                static_cast<std::uint32_t>(std::int32_t{weight[output * depth + place]});
        }
    }
    for (std::size_t sample = 0; sample < samples; ++sample, inputs += depth, out += outputs) {
        auto* sum = reinterpret_cast<std::uint32_t*>(out);
        std::copy_n(bias, outputs, out);
        for (std::size_t place = 0; place < depth; ++place) {
            const std::uint32_t input = inputs[place];
            if (input == 0) continue;
            const std::uint32_t* column = columns.data() + place * outputs;
            for (std::size_t output = 0; output < outputs; ++output) sum[output] += input * column[output];
        }
    }
}

}  // namespace sparsepool::chess
