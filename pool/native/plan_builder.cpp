#include "plan_builder.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "plan_tiles.h"

namespace sparsepool {
namespace {

constexpr std::size_t GROUP_BITS = PlanView::GROUP_BITS;
constexpr std::size_t CHUNK = PlanView::CHUNK;
constexpr std::size_t MAX_GROUPS = 6;      // of a tile: 36 rows, as bits of one number
constexpr std::size_t MOST_FEATURES = 127;  // of a bag: then no list of a chunk is longer than 16 bits can say
constexpr std::size_t MIN_BAGS = 300;      // a tile with fewer has no groups: 64 sums must pay
constexpr std::size_t COLUMN_UNIT = 32;    // threads' shares of the columns are multiples of it

static_assert(MOST_FEATURES * CHUNK <= std::numeric_limits<std::uint16_t>::max());

constexpr std::uint16_t GROUPED = 0x8000;  // a code that is a bit of a group, not a row

// Fills a plan's arrays, tile by tile.
class Builder {
public:
    Builder(Offsets offsets, const Numbers& features, std::size_t num_features, Tiles tiles)
        : offsets_(offsets.data), features_(features), codes_(num_features), uses_(std::move(tiles.uses)) {
        plan_.worth = true;
        plan_.bags = std::move(tiles.bags);
        plan_.rows = std::move(tiles.rows);
        plan_.seen = std::move(tiles.seen);
        plan_.bag_lists.resize(plan_.bags.size());
        plan_.bag_terms.resize(features_.size + 1);  // one is written beyond what is kept
        plan_.row_terms.resize(features_.size);
    }

    template <class Number>
    PlanArrays build(const std::vector<Tile>& tiles) {
        for (const Tile& tile : tiles) {
            fill_tile<Number>(tile);
        }
        return std::move(plan_);
    }

private:
    template <class Number>
    void fill_tile(const Tile& found) {
        PlanTile tile{};
        tile.first_row = found.first_row;
        tile.rows = found.rows;
        choose_groups(tile, found.last_bag - found.first_bag);
        for (std::size_t r = 0; r < tile.rows; ++r) {
            codes_[plan_.rows[tile.first_row + r]] = static_cast<std::uint16_t>(r);
        }
        for (std::size_t bit = 0; bit < tile.groups * GROUP_BITS; ++bit) {
            const std::size_t row = plan_.grouped[tile.first_grouped + bit];
            codes_[plan_.rows[tile.first_row + row]] = static_cast<std::uint16_t>(GROUPED | bit);
        }
        const std::size_t rows = tile.rows + (tile.groups << GROUP_BITS);
        plan_.most_rows = std::max(plan_.most_rows, rows);
        counts_.assign(rows, 0);
        tile.first_chunk = static_cast<std::uint32_t>(plan_.chunks.size());
        for (std::size_t bag = found.first_bag; bag < found.last_bag; bag += CHUNK) {
            fill_chunk<Number>(tile, bag, std::min<std::size_t>(found.last_bag, bag + CHUNK));
        }
        tile.last_chunk = static_cast<std::uint32_t>(plan_.chunks.size());
        plan_.tiles.push_back(tile);
    }

    // Groups of rows, the most frequent first, as long as a bag has 1.5 of a group's rows on average.
    void choose_groups(PlanTile& tile, std::size_t bags) {
        tile.first_grouped = static_cast<std::uint32_t>(plan_.grouped.size());
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
            plan_.grouped.insert(plan_.grouped.end(), begin, begin + GROUP_BITS);
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
            fill_bag<Number>(tile, plan_.bags[bag]);
            list.size = static_cast<std::uint16_t>(terms_ - list.first);
            if (list.size >= sizes_.size()) {
                sizes_.resize(list.size + 1U, 0);
            }
            ++sizes_[list.size];
        }
        by_size(sizes_);
        for (std::size_t i = 0; i < last_bag - first_bag; ++i) {
            plan_.bag_lists[first_bag + sizes_[lists[i].size]++] = lists[i];
        }
        const auto first_list = static_cast<std::uint32_t>(plan_.row_lists.size());
        fill_row_lists(first_term);
        const std::uint16_t* terms = plan_.bag_terms.data();
        std::uint16_t* places = plan_.row_terms.data();
        std::uint32_t* ends = ends_.data();
        for (std::size_t i = 0; i < last_bag - first_bag; ++i) {
            const std::size_t end = lists[i].first + std::size_t{lists[i].size};
            for (std::size_t k = lists[i].first; k < end; ++k) {
                places[ends[terms[k]]++] = static_cast<std::uint16_t>(i);
            }
        }
        plan_.chunks.push_back({static_cast<std::uint32_t>(first_bag), static_cast<std::uint32_t>(last_bag), first_list,
                                 static_cast<std::uint32_t>(plan_.row_lists.size())});
    }

    // Appends the rows that a bag reads: those in no group, then a sum for each group of which it has rows.
    template <class Number>
    void fill_bag(const PlanTile& tile, std::size_t bag) {
        const auto* features = static_cast<const Number*>(features_.data);
        const std::uint16_t* codes = codes_.data();
        std::uint16_t* terms = plan_.bag_terms.data() + terms_;
        std::uint64_t bits = 0;
        std::size_t size = 0;
        const std::size_t end = offsets_[bag + 1];
        for (std::size_t k = offsets_[bag]; k < end; ++k) {
            const unsigned code = codes[features[k]];
            const std::uint64_t bit = std::uint64_t{code >> 15} << (code & 63U);
            if ((bits & bit) != 0) [[unlikely]] {  // a feature that the bag has twice
                terms[size++] = plan_.grouped[tile.first_grouped + (code & 63U)];
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
        terms_ += size;
    }

    // Lists of the rows that the chunk's bags read; ends_ is then where each list's next place goes.
    void fill_row_lists(std::size_t first_term) {
        const std::uint16_t* terms = plan_.bag_terms.data();
        std::uint32_t* counts = counts_.data();
        for (std::size_t k = first_term; k < terms_; ++k) {
            ++counts[terms[k]];
        }
        sizes_.assign(CHUNK + 1, 0);
        for (const std::uint32_t count : counts_) {
            if (count >= sizes_.size()) {
                sizes_.resize(count + 1U, 0);
            }
            ++sizes_[count];
        }
        sizes_[0] = 0;
        const std::size_t first_list = plan_.row_lists.size();
        plan_.row_lists.resize(first_list + by_size(sizes_));
        ends_.resize(counts_.size());
        auto end = static_cast<std::uint32_t>(first_term);
        for (std::size_t r = 0; r < counts_.size(); ++r) {
            ends_[r] = end;
            if (counts_[r] > 0) {
                plan_.row_lists[first_list + sizes_[counts_[r]]++] = {
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

    PlanArrays plan_;
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

}  // namespace

PlanArrays build_plan(Offsets offsets, const Numbers& features, std::size_t num_features,
                      const std::vector<std::uint32_t>& order) {
    for (std::size_t bag = 0; bag + 1 < offsets.size; ++bag) {
        if (offsets.data[bag + 1] - offsets.data[bag] > MOST_FEATURES) {
            return {};
        }
    }
    Tiles found = find_tiles(offsets, features, num_features, order);
    if (!found.worth) {
        return {};
    }
    const std::vector<Tile> tiles = found.tiles;
    Builder builder(offsets, features, num_features, std::move(found));
    return features.wide ? builder.build<std::uint32_t>(tiles) : builder.build<std::uint16_t>(tiles);
}

}  // namespace sparsepool
