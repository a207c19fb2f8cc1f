#include "sparse/plan_builder.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "base/matrix.h"

// Which bags of a batch belong together because they share rows.
namespace sparsepool {

// Fetches the features of the bag that is visited eight bags after this one: in tile order bags lie far apart.
template <class Number>
[[gnu::always_inline]] inline void fetch_ahead(const std::vector<std::uint32_t>& bags, std::size_t place,
                                               const std::uint32_t* offsets, const Number* features) {
    constexpr std::size_t kAhead = 8;
    constexpr std::size_t kLine = 64 / sizeof(Number);
    if (place + kAhead < bags.size()) {
        const Number* wanted = features + offsets[bags[place + kAhead]];
        __builtin_prefetch(wanted);
        __builtin_prefetch(wanted + kLine);
    }
}

struct Tile {
    std::uint32_t first_row, rows;
    std::uint32_t first_bag, last_bag;
};

struct Tiles {
    static constexpr std::size_t kCounted =
        4;  // every so many bags their uses are counted: that is enough to choose by

    bool worth = false;  // whether the rows of a tile are used often enough to pay for their copies
    std::vector<Tile> tiles;
    std::vector<std::uint32_t> bags;  // tile after tile, ascending within each
    std::vector<std::uint32_t> rows;  // the features that a tile's bags have, tile after tile
    std::vector<std::uint32_t> uses;  // of each: by how many of the tile's bags that are counted
    std::vector<std::uint8_t> seen;   // of each: whether a tile before has it too
};

// offsets and features are sound, each feature below num_features; `order` is all bags.
Tiles find_tiles(Offsets offsets, const Numbers& features, std::size_t num_features,
                 const std::vector<std::uint32_t>& order);

namespace {

constexpr std::size_t kMostRows = 2048;   // of a tile: beyond, its slab of 128 columns leaves the second cache
constexpr std::size_t kEnoughRows = 384;  // from here on, a bag that shares nothing begins the next tile
constexpr std::size_t kMinUses = 4;       // of a row in its tile, on average

constexpr std::uint16_t kNone = std::numeric_limits<std::uint16_t>::max();

class Finder {
  public:
    Finder(Offsets offsets, const Numbers& features, std::size_t num_features)
        : offsets_(offsets.data), features_(features), num_features_(num_features), rows_(num_features, kNone) {}

    template <class Number>
    Tiles find(const std::vector<std::uint32_t>& order) {
        std::vector<std::uint32_t> tile_of(order.size());
        std::vector<std::uint8_t> known(num_features_, 0);  // features of the tiles before
        for (std::size_t place = 0; place < order.size();) place = next_tile<Number>(order, place, tile_of, known);
        found_.worth = !found_.rows.empty() && features_.size >= kMinUses * found_.rows.size();
        // ascending within each tile: gradients are then read in the order in which they lie
        std::vector<std::uint32_t> next;
        for (const Tile& tile : found_.tiles) next.push_back(tile.first_bag);
        found_.bags.resize(order.size());
        for (std::size_t bag = 0; bag < order.size(); ++bag) {
            found_.bags[next[tile_of[bag]]++] = static_cast<std::uint32_t>(bag);
        }
        return std::move(found_);
    }

  private:
    template <class Number>
    std::size_t next_tile(const std::vector<std::uint32_t>& order, std::size_t place,
                          std::vector<std::uint32_t>& tile_of, std::vector<std::uint8_t>& known) {
        const auto* features = static_cast<const Number*>(features_.data);
        Tile tile{};
        tile.first_row = static_cast<std::uint32_t>(found_.rows.size());
        tile.first_bag = static_cast<std::uint32_t>(place);
        for (; place < order.size(); ++place) {
            const std::uint32_t bag = order[place];
            const Number* begin = features + offsets_[bag];
            const Number* end = features + offsets_[bag + 1];
            fetch_ahead(order, place, offsets_, features);
            if (has_new_row(begin, end)) {
                const std::size_t before = found_.rows.size();
                const std::size_t held = before - tile.first_row;
                add_rows(begin, end, tile.first_row);
                if (held > 0 && ends_tile(held, found_.rows.size() - before, static_cast<std::size_t>(end - begin))) {
                    take_back(before);
                    break;
                }
            }
            if (place % Tiles::kCounted == 0) count_uses(begin, end, tile.first_row);
            tile_of[bag] = static_cast<std::uint32_t>(found_.tiles.size());
        }
        tile.last_bag = static_cast<std::uint32_t>(place);
        tile.rows = static_cast<std::uint32_t>(found_.rows.size() - tile.first_row);
        for (std::size_t r = tile.first_row; r < found_.rows.size(); ++r) {
            rows_[found_.rows[r]] = kNone;
            found_.seen.push_back(known[found_.rows[r]]);
            known[found_.rows[r]] = 1;
        }
        found_.tiles.push_back(tile);
        return place;
    }

    // Whether a tile of `held` rows ends before a bag of `size` features, of which `fresh` are new to it.
    static bool ends_tile(std::size_t held, std::size_t fresh, std::size_t size) {
        return held + fresh > kMostRows || (held >= kEnoughRows && fresh == size) ||
               (held >= 2 * kEnoughRows && 2 * fresh >= size);
    }

    template <class Number>
    bool has_new_row(const Number* feature, const Number* end) const {
        const std::uint16_t* rows = rows_.data();
        while (feature != end && rows[*feature] != kNone) ++feature;
        return feature != end;
    }

    template <class Number>
    void add_rows(const Number* feature, const Number* end, std::size_t first_row) {
        for (; feature != end; ++feature) {
            if (rows_[*feature] == kNone) {
                rows_[*feature] = static_cast<std::uint16_t>(found_.rows.size() - first_row);
                found_.rows.push_back(*feature);
                found_.uses.push_back(0);
            }
        }
    }

    // A bag that belongs to the next tile: its new rows are undone.
    void take_back(std::size_t rows) {
        for (std::size_t r = rows; r < found_.rows.size(); ++r) rows_[found_.rows[r]] = kNone;
        found_.rows.resize(rows);
        found_.uses.resize(rows);
    }

    template <class Number>
    void count_uses(const Number* feature, const Number* end, std::size_t first_row) {
        const std::uint16_t* rows = rows_.data();
        std::uint32_t* uses = found_.uses.data() + first_row;
        for (; feature != end; ++feature) ++uses[rows[*feature]];
    }

    const std::uint32_t* offsets_;
    Numbers features_;
    std::size_t num_features_;
    std::vector<std::uint16_t> rows_;  // by feature: its row in the tile at hand
    Tiles found_;
};

}  // namespace

Tiles find_tiles(Offsets offsets, const Numbers& features, std::size_t num_features,
                 const std::vector<std::uint32_t>& order) {
    Finder finder(offsets, features, num_features);
    return features.wide ? finder.find<std::uint32_t>(order) : finder.find<std::uint16_t>(order);
}

namespace {

constexpr std::size_t kGroupBits = PlanTile::kGroupBits;
constexpr std::size_t kChunk = PlanView::kChunk;
constexpr std::size_t kMaxGroups = 6;       // of a tile: 36 rows, as bits of one number
constexpr std::size_t kMostFeatures = 255;  // of a bag: then no sum of a chunk is longer than 16 bits can say
constexpr std::size_t kMinBags = 300;       // a tile with fewer has no groups: 64 sums must pay

static_assert(kMostFeatures * kChunk <= std::numeric_limits<std::uint16_t>::max());

constexpr std::uint16_t kGrouped = 0x8000;  // a code that is a bit of a group, not a row

// Fills a plan's arrays, tile by tile.
class Builder {
  public:
    Builder(Offsets offsets, const Numbers& features, std::size_t num_features, Tiles tiles)
        : offsets_(offsets.data), features_(features), codes_(num_features), uses_(std::move(tiles.uses)) {
        plan_.worth = true;
        plan_.bags = std::move(tiles.bags);
        plan_.rows = std::move(tiles.rows);
        plan_.seen = std::move(tiles.seen);
        plan_.bag_terms.reserve(features_.size);
        plan_.row_terms.reserve(features_.size);
        terms_.resize(kChunk * kMostFeatures + 1);  // one is written beyond what is kept
    }

    template <class Number>
    PlanArrays build(const std::vector<Tile>& tiles) {
        for (const Tile& tile : tiles) fill_tile<Number>(tile);
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
            codes_[plan_.rows[tile.first_row + r]] = static_cast<std::uint16_t>(1 + r);
        }
        for (std::size_t bit = 0; bit < tile.groups * kGroupBits; ++bit) {
            const std::size_t row = plan_.grouped[tile.first_grouped + bit];
            codes_[plan_.rows[tile.first_row + row]] = static_cast<std::uint16_t>(kGrouped | bit);
        }
        const std::size_t rows = tile.slab_rows();
        plan_.most_rows = std::max(plan_.most_rows, rows);
        counts_.resize(rows);
        tile.first_chunk = static_cast<std::uint32_t>(plan_.chunks.size());
        for (std::size_t bag = found.first_bag; bag < found.last_bag; bag += kChunk) {
            fill_chunk<Number>(tile, bag, std::min<std::size_t>(found.last_bag, bag + kChunk));
        }
        tile.last_chunk = static_cast<std::uint32_t>(plan_.chunks.size());
        plan_.tiles.push_back(tile);
    }

    // Groups of rows, the most frequent first, as long as a bag has 1.5 of a group's rows on average.
    void choose_groups(PlanTile& tile, std::size_t bags) {
        tile.first_grouped = static_cast<std::uint32_t>(plan_.grouped.size());
        if (bags < kMinBags) return;
        const std::uint32_t* uses = uses_.data() + tile.first_row;
        const std::size_t counted = bags / Tiles::kCounted;
        frequent_.clear();
        for (std::size_t r = 0; r < tile.rows; ++r) {
            if (8 * std::size_t{uses[r]} >= counted) frequent_.push_back(static_cast<std::uint16_t>(r));
        }
        std::sort(frequent_.begin(), frequent_.end(),
                  [&](std::uint16_t a, std::uint16_t b) { return uses[a] != uses[b] ? uses[a] > uses[b] : a < b; });
        while (tile.groups < kMaxGroups && (tile.groups + 1) * kGroupBits <= frequent_.size()) {
            const auto begin = frequent_.begin() + static_cast<std::ptrdiff_t>(tile.groups * kGroupBits);
            std::size_t sum = 0;
            for (auto row = begin; row != begin + kGroupBits; ++row) sum += uses[*row];
            if (2 * sum < 3 * counted) break;
            plan_.grouped.insert(plan_.grouped.end(), begin, begin + kGroupBits);
            ++tile.groups;
        }
    }

    template <class Number>
    void fill_chunk(const PlanTile& tile, std::size_t first_bag, std::size_t last_bag) {
        const std::size_t bags = last_bag - first_bag;
        std::array<std::uint32_t, kChunk + 1> ends;
        std::array<std::uint16_t, kChunk> sizes;
        ends[0] = 0;
        for (std::size_t i = 0; i < bags; ++i) {
            fetch_ahead(plan_.bags, first_bag + i, offsets_, static_cast<const Number*>(features_.data));
            ends[i + 1] = ends[i] + fill_bag<Number>(tile, plan_.bags[first_bag + i], terms_.data() + ends[i]);
            sizes[i] = static_cast<std::uint16_t>(ends[i + 1] - ends[i]);
        }
        PlanChunk chunk{};
        chunk.first_bag = static_cast<std::uint32_t>(first_bag);
        chunk.last_bag = static_cast<std::uint32_t>(last_bag);
        chunk.first_bag_quad = static_cast<std::uint32_t>(plan_.bag_quads.size());
        chunk.first_row_quad = static_cast<std::uint32_t>(plan_.row_quads.size());
        sort_by_size(sizes.data(), bags);
        add_quads(sizes.data(), bags, plan_.bag_quads, plan_.bag_terms);
        std::fill(counts_.begin(), counts_.end(), std::uint16_t{0});
        for (std::size_t i = 0; i < bags; ++i) {
            std::uint16_t* to = plan_.bag_terms.data() + begins_[i];
            for (std::size_t k = ends[i]; k < ends[i + 1]; ++k, to += SumQuad::kSums) {
                *to = terms_[k];
                ++counts_[terms_[k]];
            }
        }
        const std::size_t rows = sort_by_size(counts_.data(), counts_.size());
        add_quads(counts_.data(), rows, plan_.row_quads, plan_.row_terms);
        std::uint16_t* places = plan_.row_terms.data();
        for (std::size_t i = 0; i < bags; ++i) {
            for (std::size_t k = ends[i]; k < ends[i + 1]; ++k) {
                std::uint32_t& next = begins_[terms_[k]];
                places[next] = static_cast<std::uint16_t>(1 + i);
                next += SumQuad::kSums;
            }
        }
        chunk.last_bag_quad = static_cast<std::uint32_t>(plan_.bag_quads.size());
        chunk.last_row_quad = static_cast<std::uint32_t>(plan_.row_quads.size());
        plan_.chunks.push_back(chunk);
    }

    // The rows that a bag reads: those in no group, then a sum for each group of which it has rows. Returns how many.
    template <class Number>
    std::uint32_t fill_bag(const PlanTile& tile, std::size_t bag, std::uint16_t* terms) const {
        const auto* features = static_cast<const Number*>(features_.data);
        const std::uint16_t* codes = codes_.data();
        std::uint64_t bits = 0;
        std::size_t size = 0;
        const std::size_t end = offsets_[bag + 1];
        for (std::size_t k = offsets_[bag]; k < end; ++k) {
            const unsigned code = codes[features[k]];
            const std::uint64_t bit = std::uint64_t{code >> 15} << (code & 63U);
            if ((bits & bit) != 0) [[unlikely]] {  // a feature that the bag has twice
                terms[size++] = static_cast<std::uint16_t>(1 + plan_.grouped[tile.first_grouped + (code & 63U)]);
                continue;
            }
            bits |= bit;
            terms[size] = static_cast<std::uint16_t>(code);
            size += code < kGrouped ? 1 : 0;
        }
        for (std::size_t g = 0; g < tile.groups; ++g) {
            const std::uint64_t part = bits >> (g * kGroupBits) & ((1U << kGroupBits) - 1U);
            terms[size] = static_cast<std::uint16_t>(tile.sums_of(g) + part);
            size += part != 0 ? 1 : 0;
        }
        return static_cast<std::uint32_t>(size);
    }

    // Numbers of the sums, of sizes[i] terms each, in sorted_, the longest first. Returns how many have terms at all.
    std::size_t sort_by_size(const std::uint16_t* sizes, std::size_t count) {
        const std::size_t longest = *std::max_element(sizes, sizes + count);
        places_.assign(longest + 1, 0);
        for (std::size_t i = 0; i < count; ++i) ++places_[sizes[i]];
        std::uint32_t total = 0;
        for (std::size_t size = longest; size > 0; --size) total += std::exchange(places_[size], total);
        places_[0] = total;
        sorted_.resize(count);
        for (std::size_t i = 0; i < count; ++i) sorted_[places_[sizes[i]]++] = static_cast<std::uint16_t>(i);
        return total;
    }

    // Appends quads for the first `count` sums of sorted_. The terms of sum i go to begins_[i], every fourth place.
    void add_quads(const std::uint16_t* sizes, std::size_t count, std::vector<SumQuad>& quads,
                   std::vector<std::uint16_t>& terms) {
        begins_.resize(sorted_.size());
        auto end = static_cast<std::uint32_t>(terms.size());
        for (std::size_t first = 0; first < count; first += SumQuad::kSums) {
            SumQuad quad{end, sizes[sorted_[first]], 0, {}};
            for (; quad.sums < SumQuad::kSums && first + quad.sums < count; ++quad.sums) {
                const std::uint16_t sum = sorted_[first + quad.sums];
                quad.out[quad.sums] = sum;
                begins_[sum] = end + quad.sums;
            }
            end += static_cast<std::uint32_t>(SumQuad::kSums * quad.size);
            quads.push_back(quad);
        }
        terms.resize(end);  // zeros: where nothing is written, the row of zeros is added
    }

    PlanArrays plan_;
    const std::uint32_t* offsets_;
    Numbers features_;
    std::vector<std::uint16_t> codes_;  // by feature: its row in the tile at hand, or its bit in the groups
    std::vector<std::uint32_t> uses_;   // of each of the plan's rows
    std::vector<std::uint16_t> frequent_;
    std::vector<std::uint16_t> terms_;   // of the chunk at hand, bag after bag
    std::vector<std::uint16_t> counts_;  // by row of the slab: its terms in the chunk at hand
    std::vector<std::uint32_t> places_;  // by size
    std::vector<std::uint16_t> sorted_;
    std::vector<std::uint32_t> begins_;
};

}  // namespace

PlanArrays build_plan(Offsets offsets, const Numbers& features, std::size_t num_features,
                      const std::vector<std::uint32_t>& order) {
    for (std::size_t bag = 0; bag + 1 < offsets.size; ++bag) {
        if (offsets.data[bag + 1] - offsets.data[bag] > kMostFeatures) {
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
