#include "sparse_plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "check.h"
#include "check_lists.h"
#include "floats.h"
#include "parallel.h"
#include "simd.h"
#include "visiting_order.h"

namespace sparsepool {
namespace {

constexpr std::size_t GROUP_BITS = PlanView::GROUP_BITS;
constexpr std::size_t CHUNK = PlanView::CHUNK;
constexpr std::size_t MAX_GROUPS = 6;      // of a tile: 36 rows, as bits of one number
constexpr std::size_t MOST_ROWS = 2048;    // of a tile: beyond, its slab of 128 columns leaves the second cache
constexpr std::size_t ENOUGH_ROWS = 384;   // from here on, a bag that shares nothing begins the next tile
constexpr std::size_t MOST_FEATURES = 127;  // of a bag: then no list of a chunk is longer than 16 bits can say
constexpr std::size_t MIN_BAGS = 300;      // a tile with fewer has no groups: 64 sums must pay
constexpr std::size_t MIN_USES = 4;        // of a row in its tile, on average
constexpr std::size_t COLUMN_UNIT = 32;    // threads' shares of the columns are multiples of it

static_assert(MOST_FEATURES * CHUNK <= std::numeric_limits<std::uint16_t>::max());

constexpr std::uint16_t NONE = std::numeric_limits<std::uint16_t>::max();
constexpr std::uint16_t GROUPED = 0x8000;  // a code that is a bit of a group, not a row

}  // namespace

// Fills a plan's arrays: tiles first, then tile by tile what its bags read and its rows receive.
class PlanBuilder {
public:
    PlanBuilder(SparsePlan& plan, Offsets offsets, const Numbers& features)
        : plan_(plan), offsets_(offsets.data), features_(features), codes_(plan.num_features_, NONE) {}

    template <class Number>
    void build(const std::vector<std::uint32_t>& order) {
        find_tiles<Number>(order);
        if (!plan_.worth_) {
            return;
        }
        plan_.bag_lists_.resize(plan_.bags_.size());
        plan_.bag_terms_.resize(features_.size + 1);  // one is written beyond what is kept
        plan_.row_terms_.resize(features_.size);
        for (PlanTile& tile : plan_.tiles_) {
            fill_tile<Number>(tile);
        }
    }

private:
    // Tiles hold bags for now: chunks are made by fill_tile.
    template <class Number>
    void find_tiles(const std::vector<std::uint32_t>& order) {
        std::vector<std::uint32_t> tile_of(order.size());
        std::vector<std::uint8_t> known(plan_.num_features_, 0);
        for (std::size_t place = 0; place < order.size();) {
            place = find_tile<Number>(order, place, tile_of, known);
        }
        plan_.worth_ = !plan_.rows_.empty() && features_.size >= MIN_USES * plan_.rows_.size();
        // ascending within each tile: gradients are then read in the order in which they lie
        std::vector<std::uint32_t> next;
        for (const PlanTile& tile : plan_.tiles_) {
            next.push_back(tile.first_chunk);
        }
        plan_.bags_.resize(order.size());
        for (std::size_t bag = 0; bag < order.size(); ++bag) {
            plan_.bags_[next[tile_of[bag]]++] = static_cast<std::uint32_t>(bag);
        }
    }

    template <class Number>
    std::size_t find_tile(const std::vector<std::uint32_t>& order, std::size_t place,
                          std::vector<std::uint32_t>& tile_of, std::vector<std::uint8_t>& known) {
        const auto* features = static_cast<const Number*>(features_.data);
        PlanTile tile{};
        tile.first_row = static_cast<std::uint32_t>(plan_.rows_.size());
        tile.first_chunk = static_cast<std::uint32_t>(place);
        for (; place < order.size(); ++place) {
            const std::uint32_t bag = order[place];
            const std::size_t begin = offsets_[bag];
            const std::size_t end = offsets_[bag + 1];
            const std::size_t before = plan_.rows_.size();
            count_uses(features, begin, end, tile.first_row);
            const std::size_t held = before - tile.first_row;
            if (held > 0 && ends_tile(held, plan_.rows_.size() - before, end - begin)) {
                take_back(features, begin, end, tile.first_row, before);
                break;
            }
            tile_of[bag] = static_cast<std::uint32_t>(plan_.tiles_.size());
        }
        tile.last_chunk = static_cast<std::uint32_t>(place);
        tile.rows = static_cast<std::uint32_t>(plan_.rows_.size() - tile.first_row);
        for (std::size_t r = tile.first_row; r < plan_.rows_.size(); ++r) {
            codes_[plan_.rows_[r]] = NONE;
            plan_.seen_.push_back(known[plan_.rows_[r]]);
            known[plan_.rows_[r]] = 1;
        }
        plan_.tiles_.push_back(tile);
        return place;
    }

    // Whether a tile of `held` rows ends before a bag of `size` features, of which `fresh` are new to it.
    static bool ends_tile(std::size_t held, std::size_t fresh, std::size_t size) {
        return held + fresh > MOST_ROWS || (held >= ENOUGH_ROWS && fresh > 0 && fresh == size) ||
               (held >= 2 * ENOUGH_ROWS && 2 * fresh >= size && fresh > 0);
    }

    template <class Number>
    void count_uses(const Number* features, std::size_t begin, std::size_t end, std::size_t first_row) {
        const std::uint16_t* codes = codes_.data();
        std::uint32_t* uses = uses_.data() + first_row;
        for (std::size_t k = begin; k < end; ++k) {
            std::size_t row = codes[features[k]];
            if (row == NONE) [[unlikely]] {
                row = plan_.rows_.size() - first_row;
                codes_[features[k]] = static_cast<std::uint16_t>(row);
                plan_.rows_.push_back(features[k]);
                uses_.push_back(0);
                uses = uses_.data() + first_row;
            }
            ++uses[row];
        }
    }

    // A bag that belongs to the next tile: its new rows and its uses are undone.
    template <class Number>
    void take_back(const Number* features, std::size_t begin, std::size_t end, std::size_t first_row,
                   std::size_t rows) {
        for (std::size_t k = begin; k < end; ++k) {
            --uses_[first_row + codes_[features[k]]];
        }
        for (std::size_t r = rows; r < plan_.rows_.size(); ++r) {
            codes_[plan_.rows_[r]] = NONE;
        }
        plan_.rows_.resize(rows);
        uses_.resize(rows);
    }

    template <class Number>
    void fill_tile(PlanTile& tile) {
        const std::size_t first_bag = tile.first_chunk;
        const std::size_t last_bag = tile.last_chunk;
        choose_groups(tile, last_bag - first_bag);
        for (std::size_t r = 0; r < tile.rows; ++r) {
            codes_[plan_.rows_[tile.first_row + r]] = static_cast<std::uint16_t>(r);
        }
        for (std::size_t bit = 0; bit < tile.groups * GROUP_BITS; ++bit) {
            const std::size_t row = plan_.grouped_[tile.first_grouped + bit];
            codes_[plan_.rows_[tile.first_row + row]] = static_cast<std::uint16_t>(GROUPED | bit);
        }
        const std::size_t rows = tile.rows + (tile.groups << GROUP_BITS);
        plan_.most_rows_ = std::max(plan_.most_rows_, rows);
        counts_.assign(rows, 0);
        tile.first_chunk = static_cast<std::uint32_t>(plan_.chunks_.size());
        for (std::size_t bag = first_bag; bag < last_bag; bag += CHUNK) {
            fill_chunk<Number>(tile, bag, std::min(last_bag, bag + CHUNK));
        }
        tile.last_chunk = static_cast<std::uint32_t>(plan_.chunks_.size());
    }

    // Groups of rows, the most frequent first, as long as a bag has 1.5 of a group's rows on average.
    void choose_groups(PlanTile& tile, std::size_t bags) {
        tile.first_grouped = static_cast<std::uint32_t>(plan_.grouped_.size());
        if (bags < MIN_BAGS) {
            return;
        }
        const std::uint32_t* uses = uses_.data() + tile.first_row;
        frequent_.clear();
        for (std::size_t r = 0; r < tile.rows; ++r) {
            if (8 * std::size_t{uses[r]} >= bags) {
                frequent_.push_back(static_cast<std::uint16_t>(r));
            }
        }
        std::sort(frequent_.begin(), frequent_.end(), [&](std::uint16_t a, std::uint16_t b) {
            return uses[a] != uses[b] ? uses[a] > uses[b] : a < b;
        });
        while (tile.groups < MAX_GROUPS && (tile.groups + 1) * GROUP_BITS <= frequent_.size()) {
            const auto begin = frequent_.begin() + static_cast<std::ptrdiff_t>(tile.groups * GROUP_BITS);
            std::size_t sum = 0;
            for (auto row = begin; row != begin + GROUP_BITS; ++row) {
                sum += uses[*row];
            }
            if (2 * sum < 3 * bags) {
                break;
            }
            plan_.grouped_.insert(plan_.grouped_.end(), begin, begin + GROUP_BITS);
            ++tile.groups;
        }
    }

    template <class Number>
    void fill_chunk(const PlanTile& tile, std::size_t first_bag, std::size_t last_bag) {
        const std::size_t first_term = terms_;
        std::array<SumList, CHUNK> lists;
        sizes_.assign(1, 0);
        for (std::size_t bag = first_bag; bag < last_bag; ++bag) {
            SumList& list = lists[bag - first_bag];
            list = {static_cast<std::uint32_t>(terms_), 0, static_cast<std::uint16_t>(bag - first_bag)};
            fill_bag<Number>(tile, plan_.bags_[bag]);
            list.size = static_cast<std::uint16_t>(terms_ - list.first);
            if (list.size >= sizes_.size()) {
                sizes_.resize(list.size + 1U, 0);
            }
            ++sizes_[list.size];
        }
        by_size(sizes_);
        for (std::size_t i = 0; i < last_bag - first_bag; ++i) {
            plan_.bag_lists_[first_bag + sizes_[lists[i].size]++] = lists[i];
        }
        const auto first_list = static_cast<std::uint32_t>(plan_.row_lists_.size());
        fill_row_lists(first_term);
        const std::uint16_t* terms = plan_.bag_terms_.data();
        std::uint16_t* places = plan_.row_terms_.data();
        std::uint32_t* ends = ends_.data();
        for (std::size_t i = 0; i < last_bag - first_bag; ++i) {
            const std::size_t end = lists[i].first + std::size_t{lists[i].size};
            for (std::size_t k = lists[i].first; k < end; ++k) {
                places[ends[terms[k]]++] = static_cast<std::uint16_t>(i);
            }
        }
        plan_.chunks_.push_back({static_cast<std::uint32_t>(first_bag), static_cast<std::uint32_t>(last_bag), first_list,
                                 static_cast<std::uint32_t>(plan_.row_lists_.size())});
    }

    // Appends the rows that a bag reads: those in no group, then a sum for each group of which it has rows.
    template <class Number>
    void fill_bag(const PlanTile& tile, std::size_t bag) {
        const auto* features = static_cast<const Number*>(features_.data);
        const std::uint16_t* codes = codes_.data();
        std::uint16_t* terms = plan_.bag_terms_.data() + terms_;
        std::uint64_t bits = 0;
        std::size_t size = 0;
        const std::size_t end = offsets_[bag + 1];
        for (std::size_t k = offsets_[bag]; k < end; ++k) {
            const unsigned code = codes[features[k]];
            const std::uint64_t bit = std::uint64_t{code >> 15} << (code & 63U);
            if ((bits & bit) != 0) [[unlikely]] {  // a feature that the bag has twice
                terms[size++] = plan_.grouped_[tile.first_grouped + (code & 63U)];
                continue;
            }
            bits |= bit;
            terms[size] = static_cast<std::uint16_t>(code);
            size += code < GROUPED ? 1 : 0;
        }
        for (std::size_t g = 0; g < tile.groups; ++g) {
            const std::uint64_t part = bits >> (g * GROUP_BITS) & ((1U << GROUP_BITS) - 1U);
            terms[size] = static_cast<std::uint16_t>(tile.rows + (g << GROUP_BITS) + part);
            size += part != 0 ? 1 : 0;
        }
        std::uint32_t* counts = counts_.data();
        for (std::size_t k = 0; k < size; ++k) {
            ++counts[terms[k]];
        }
        terms_ += size;
    }

    // Lists of the rows that the chunk's bags read; ends_ is then where each list's next place goes.
    void fill_row_lists(std::size_t first_term) {
        sizes_.assign(CHUNK + 1, 0);
        for (const std::uint32_t count : counts_) {
            if (count >= sizes_.size()) {
                sizes_.resize(count + 1U, 0);
            }
            ++sizes_[count];
        }
        sizes_[0] = 0;
        const std::size_t first_list = plan_.row_lists_.size();
        plan_.row_lists_.resize(first_list + by_size(sizes_));
        ends_.resize(counts_.size());
        auto end = static_cast<std::uint32_t>(first_term);
        for (std::size_t r = 0; r < counts_.size(); ++r) {
            ends_[r] = end;
            if (counts_[r] > 0) {
                plan_.row_lists_[first_list + sizes_[counts_[r]]++] = {
                    end, static_cast<std::uint16_t>(counts_[r]),
                    static_cast<std::uint16_t>(r)};
                end += counts_[r];
                counts_[r] = 0;
            }
        }
    }

    // From how many lists there are of each size to where those of that size begin, the longest first.
    static std::size_t by_size(std::vector<std::size_t>& sizes) {
        std::size_t total = 0;
        for (std::size_t size = sizes.size(); size-- > 0;) {
            total += std::exchange(sizes[size], total);
        }
        return total;
    }

    SparsePlan& plan_;
    const std::uint32_t* offsets_;
    Numbers features_;
    std::vector<std::uint16_t> codes_;    // by feature: its row in the tile at hand, or its bit in the groups
    std::vector<std::uint32_t> uses_;     // of each of the plan's rows
    std::vector<std::uint16_t> frequent_;
    std::vector<std::uint32_t> counts_;   // by row of the tile: terms in the chunk at hand
    std::vector<std::size_t> sizes_;
    std::vector<std::uint32_t> ends_;
    std::size_t terms_ = 0;
};

SparsePlan::SparsePlan(Offsets offsets, Numbers features, std::size_t num_features) : num_features_(num_features) {
    check_bags(offsets, features);
    check_below("features", features, num_features, "rows in weight");
    bags_.resize(offsets.size - 1);
    for (std::size_t bag = 0; bag + 1 < offsets.size; ++bag) {
        if (offsets.data[bag + 1] - offsets.data[bag] > MOST_FEATURES) {
            return;
        }
    }
    PlanBuilder builder(*this, offsets, features);
    const std::vector<std::uint32_t> order = visiting_order(offsets, features, num_features);
    features.wide ? builder.build<std::uint32_t>(order) : builder.build<std::uint16_t>(order);
}

PlanView SparsePlan::view() const {
    return {.tiles = tiles_.data(),
            .num_tiles = tiles_.size(),
            .chunks = chunks_.data(),
            .num_chunks = chunks_.size(),
            .bags = bags_.data(),
            .rows = rows_.data(),
            .seen = seen_.data(),
            .grouped = grouped_.data(),
            .bag_lists = bag_lists_.data(),
            .bag_terms = bag_terms_.data(),
            .row_lists = row_lists_.data(),
            .row_terms = row_terms_.data()};
}

namespace {

template <class Run>
void by_columns(std::size_t columns, std::size_t threads, std::size_t scratch_size, const Run& run) {
    const std::size_t parts = std::min(threads, (columns + COLUMN_UNIT - 1) / COLUMN_UNIT);
    const Floats scratch(parts * scratch_size);
    run_parts(parts, [&](std::size_t part) {
        run(border(columns, COLUMN_UNIT, part, parts), border(columns, COLUMN_UNIT, part + 1, parts),
            scratch.data() + part * scratch_size);
    });
}

}  // namespace

void SparsePlan::forward(ConstMatrix weight, const float* bias, Matrix out, std::size_t threads) const {
    check_threads(threads);
    require(worth_, "this plan is not worth its use, and empty");
    require(weight.rows == num_features_, "weight has ", weight.rows, " rows, but the plan was made for ",
            num_features_);
    require(out.rows == bags() && out.columns == weight.columns, "out is [", out.rows, ", ", out.columns,
            "], but plan and weight make it [", bags(), ", ", weight.columns, "]");
    const Kernels& level = kernels();
    const PlanSums sums{weight.data, bias, out.data, out.columns, worth_streaming(out.data, out.rows, out.columns)};
    by_columns(out.columns, threads, most_rows_ * PlanView::SLAB,
               [&](std::size_t first, std::size_t last, float* scratch) {
                   level.plan_forward(view(), sums, first, last, scratch);
               });
}

void SparsePlan::backward(ConstMatrix grad_out, Matrix grad_weight, std::size_t threads) const {
    check_threads(threads);
    require(worth_, "this plan is not worth its use, and empty");
    require(grad_weight.rows == num_features_, "grad_weight has ", grad_weight.rows, " rows, but the plan was made for ",
            num_features_);
    require(grad_out.rows == bags(), "grad_out has ", grad_out.rows, " rows, but the plan ", bags(), " bags");
    require(grad_weight.columns == grad_out.columns, "grad_weight has ", grad_weight.columns,
            " columns and grad_out ", grad_out.columns);
    const Kernels& level = kernels();
    const PlanSums sums{grad_out.data, nullptr, grad_weight.data, grad_weight.columns,
                        worth_streaming(grad_weight.data, rows_.size(), grad_weight.columns)};
    by_columns(grad_weight.columns, threads, (most_rows_ + CHUNK) * PlanView::SLAB,
               [&](std::size_t first, std::size_t last, float* scratch) {
                   level.plan_backward(view(), sums, first, last, scratch);
               });
}

}  // namespace sparsepool
