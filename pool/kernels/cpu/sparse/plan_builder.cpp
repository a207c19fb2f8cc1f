#include "sparse/plan_builder.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "base/matrix.h"

// Gathers the bags of a batch that share rows in tiles, and builds the arrays of the plan from the tiles.
namespace sparsepool {

// Prefetches the features of the bag that is visited eight bags after bags[i]: in tile order bags lie far apart.
template <class Number>
[[gnu::always_inline]] inline void prefetch_features(const std::vector<std::uint32_t>& bags, std::size_t i,
                                                     const std::uint32_t* offsets, const Number* features) {
    constexpr std::size_t kAhead = 8;
    constexpr std::size_t kLine = 64 / sizeof(Number);
    if (i + kAhead < bags.size()) {
        const Number* first_feature = features + offsets[bags[i + kAhead]];
        __builtin_prefetch(first_feature);
        __builtin_prefetch(first_feature + kLine);
    }
}

struct Tile {
    std::uint32_t first_row, rows;
    std::uint32_t first_bag, last_bag;
};

struct Tiles {
    static constexpr std::size_t kCountEvery = 4;  // uses are counted in every fourth bag: enough to choose rows by

    bool is_worthwhile = false;  // the rows of a tile are used often enough to pay for their copies
    std::vector<Tile> tiles;
    std::vector<std::uint32_t> bags;  // tile after tile, ascending within each
    std::vector<std::uint32_t> rows;  // the features of each tile's bags, tile after tile
    std::vector<std::uint32_t> uses;  // of each row: how many of the counted bags have it
    std::vector<std::uint8_t> seen;   // of each row: whether an earlier tile has it too
};

// offsets and features are checked, each feature below num_features. `order`: all bags.
Tiles find_tiles(Offsets offsets, const Numbers& features, std::size_t num_features,
                 const std::vector<std::uint32_t>& order);

namespace {

constexpr std::size_t kMaxRows = 2048;    // of a tile: with more, its slab of 128 columns leaves the second cache
constexpr std::size_t kEnoughRows = 384;  // from here on, a bag that shares no row begins the next tile
constexpr std::size_t kMinUses = 4;       // of a row in its tile, on average

constexpr std::uint16_t kNone = std::numeric_limits<std::uint16_t>::max();

class TileFinder {
  public:
    TileFinder(Offsets offsets, const Numbers& features, std::size_t num_features)
        : offsets_(offsets.data), features_(features), num_features_(num_features), rows_(num_features, kNone) {}

    template <class Number>
    Tiles find(const std::vector<std::uint32_t>& order) {
        std::vector<std::uint32_t> tile_of(order.size());
        std::vector<std::uint8_t> is_seen(num_features_, 0);  // for each feature: an earlier tile has it
        std::size_t begin = 0;
        while (begin < order.size()) begin = add_tile<Number>(order, begin, tile_of, is_seen);
        tiles_.is_worthwhile = !tiles_.rows.empty() && features_.size >= kMinUses * tiles_.rows.size();
        // Bags ascend within each tile: gradients are then read in the order in which they lie in memory.
        std::vector<std::uint32_t> next;  // of each tile: where its next bag goes
        for (const Tile& tile : tiles_.tiles) next.push_back(tile.first_bag);
        tiles_.bags.resize(order.size());
        for (std::size_t bag = 0; bag < order.size(); ++bag) {
            tiles_.bags[next[tile_of[bag]]++] = static_cast<std::uint32_t>(bag);
        }
        return std::move(tiles_);
    }

  private:
    // Adds the tile that begins with bag order[begin]. Returns where the next tile begins.
    template <class Number>
    std::size_t add_tile(const std::vector<std::uint32_t>& order, std::size_t begin,
                         std::vector<std::uint32_t>& tile_of, std::vector<std::uint8_t>& is_seen) {
        const auto* features = static_cast<const Number*>(features_.data);
        Tile tile{};
        tile.first_row = static_cast<std::uint32_t>(tiles_.rows.size());
        tile.first_bag = static_cast<std::uint32_t>(begin);
        std::size_t i = begin;
        for (; i < order.size(); ++i) {
            const std::uint32_t bag = order[i];
            const Number* first = features + offsets_[bag];
            const Number* last = features + offsets_[bag + 1];
            prefetch_features(order, i, offsets_, features);
            if (has_new_row(first, last)) {
                const std::size_t old_size = tiles_.rows.size();
                const std::size_t tile_rows = old_size - tile.first_row;
                add_rows(first, last, tile.first_row);
                const std::size_t new_rows = tiles_.rows.size() - old_size;
                const auto bag_size = static_cast<std::size_t>(last - first);
                if (tile_rows > 0 && is_complete(tile_rows, new_rows, bag_size)) {
                    remove_rows(old_size);  // the bag begins the next tile
                    break;
                }
            }
            if (i % Tiles::kCountEvery == 0) count_uses(first, last, tile.first_row);
            tile_of[bag] = static_cast<std::uint32_t>(tiles_.tiles.size());
        }
        tile.last_bag = static_cast<std::uint32_t>(i);
        tile.rows = static_cast<std::uint32_t>(tiles_.rows.size() - tile.first_row);
        for (std::size_t r = tile.first_row; r < tiles_.rows.size(); ++r) {
            const std::uint32_t feature = tiles_.rows[r];
            rows_[feature] = kNone;
            tiles_.seen.push_back(is_seen[feature]);
            is_seen[feature] = 1;
        }
        tiles_.tiles.push_back(tile);
        return i;
    }

    // Whether a tile ends before a bag that would add `new_rows` of its `bag_size` rows: the tile would become too
    // large, or it is large enough for a bag that shares little with it.
    static bool is_complete(std::size_t tile_rows, std::size_t new_rows, std::size_t bag_size) {
        if (tile_rows + new_rows > kMaxRows) return true;
        if (tile_rows >= kEnoughRows && new_rows == bag_size) return true;
        return tile_rows >= 2 * kEnoughRows && 2 * new_rows >= bag_size;
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
                rows_[*feature] = static_cast<std::uint16_t>(tiles_.rows.size() - first_row);
                tiles_.rows.push_back(*feature);
                tiles_.uses.push_back(0);
            }
        }
    }

    // Removes the rows that were added last, so that `size` remain.
    void remove_rows(std::size_t size) {
        for (std::size_t r = size; r < tiles_.rows.size(); ++r) rows_[tiles_.rows[r]] = kNone;
        tiles_.rows.resize(size);
        tiles_.uses.resize(size);
    }

    template <class Number>
    void count_uses(const Number* feature, const Number* end, std::size_t first_row) {
        const std::uint16_t* rows = rows_.data();
        std::uint32_t* uses = tiles_.uses.data() + first_row;
        for (; feature != end; ++feature) ++uses[rows[*feature]];
    }

    const std::uint32_t* offsets_;
    Numbers features_;
    std::size_t num_features_;
    std::vector<std::uint16_t> rows_;  // by feature: its row in the current tile
    Tiles tiles_;
};

}  // namespace

Tiles find_tiles(Offsets offsets, const Numbers& features, std::size_t num_features,
                 const std::vector<std::uint32_t>& order) {
    TileFinder finder(offsets, features, num_features);
    return features.wide ? finder.find<std::uint32_t>(order) : finder.find<std::uint16_t>(order);
}

namespace {

constexpr std::size_t kGroupBits = PlanTile::kGroupBits;
constexpr std::size_t kChunk = PlanView::kChunk;
constexpr std::size_t kMaxGroups = 6;      // of a tile: 36 rows, as bits of one number
constexpr std::size_t kMaxFeatures = 255;  // of a bag: then the length of any sum of a chunk fits 16 bits
constexpr std::size_t kMinBags = 300;      // a tile with fewer bags has no groups: 64 sums would not pay

static_assert(kMaxFeatures * kChunk <= std::numeric_limits<std::uint16_t>::max());

// The code of a feature in a tile: its row of the slab; or, if the row is in a group, this bit and the row's bit among
// those of all groups.
constexpr std::uint16_t kGrouped = 0x8000;

// Fills a plan's arrays, tile by tile.
class Builder {
  public:
    Builder(Offsets offsets, const Numbers& features, std::size_t num_features, Tiles tiles)
        : offsets_(offsets.data), features_(features), codes_(num_features), uses_(std::move(tiles.uses)) {
        plan_.is_worthwhile = true;
        plan_.bags = std::move(tiles.bags);
        plan_.rows = std::move(tiles.rows);
        plan_.seen = std::move(tiles.seen);
        plan_.bag_terms.reserve(features_.size);
        plan_.row_terms.reserve(features_.size);
        terms_.resize(kChunk * kMaxFeatures + 1);  // fill_bag writes one term beyond those that count
    }

    template <class Number>
    PlanArrays build(const std::vector<Tile>& tiles) {
        for (const Tile& tile : tiles) fill_tile<Number>(tile);
        return std::move(plan_);
    }

  private:
    template <class Number>
    void fill_tile(const Tile& source) {
        PlanTile tile{};
        tile.first_row = source.first_row;
        tile.rows = source.rows;
        choose_groups(tile, source.last_bag - source.first_bag);
        for (std::size_t r = 0; r < tile.rows; ++r) {
            codes_[plan_.rows[tile.first_row + r]] = static_cast<std::uint16_t>(1 + r);
        }
        for (std::size_t bit = 0; bit < tile.groups * kGroupBits; ++bit) {
            const std::size_t row = plan_.grouped[tile.first_grouped + bit];
            codes_[plan_.rows[tile.first_row + row]] = static_cast<std::uint16_t>(kGrouped | bit);
        }
        const std::size_t rows = tile.slab_rows();
        plan_.max_slab_rows = std::max(plan_.max_slab_rows, rows);
        counts_.resize(rows);
        tile.first_chunk = static_cast<std::uint32_t>(plan_.chunks.size());
        for (std::size_t bag = source.first_bag; bag < source.last_bag; bag += kChunk) {
            fill_chunk<Number>(tile, bag, std::min<std::size_t>(source.last_bag, bag + kChunk));
        }
        tile.last_chunk = static_cast<std::uint32_t>(plan_.chunks.size());
        plan_.tiles.push_back(tile);
    }

    // Puts the most frequent rows in groups, as long as a bag has 1.5 rows of a group on average.
    void choose_groups(PlanTile& tile, std::size_t bags) {
        tile.first_grouped = static_cast<std::uint32_t>(plan_.grouped.size());
        if (bags < kMinBags) return;
        const std::uint32_t* uses = uses_.data() + tile.first_row;
        const std::size_t counted_bags = bags / Tiles::kCountEvery;
        frequent_.clear();
        for (std::size_t r = 0; r < tile.rows; ++r) {
            const bool is_frequent = 8 * std::size_t{uses[r]} >= counted_bags;  // at least every eighth bag has it
            if (is_frequent) frequent_.push_back(static_cast<std::uint16_t>(r));
        }
        std::sort(frequent_.begin(), frequent_.end(),
                  [&](std::uint16_t a, std::uint16_t b) { return uses[a] != uses[b] ? uses[a] > uses[b] : a < b; });
        while (tile.groups < kMaxGroups && (tile.groups + 1) * kGroupBits <= frequent_.size()) {
            const auto begin = frequent_.begin() + static_cast<std::ptrdiff_t>(tile.groups * kGroupBits);
            std::size_t sum = 0;
            for (auto row = begin; row != begin + kGroupBits; ++row) sum += uses[*row];
            if (2 * sum < 3 * counted_bags) break;
            plan_.grouped.insert(plan_.grouped.end(), begin, begin + kGroupBits);
            ++tile.groups;
        }
    }

    // Builds the quads and terms of a chunk in both directions: what each bag reads, and what each row receives.
    template <class Number>
    void fill_chunk(const PlanTile& tile, std::size_t first_bag, std::size_t last_bag) {
        const std::size_t bags = last_bag - first_bag;
        std::array<std::uint32_t, kChunk + 1> ends;  // bag i has the terms ends[i] .. ends[i + 1] - 1
        std::array<std::uint16_t, kChunk> sizes;
        ends[0] = 0;
        for (std::size_t i = 0; i < bags; ++i) {
            prefetch_features(plan_.bags, first_bag + i, offsets_, static_cast<const Number*>(features_.data));
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
        std::uint16_t* row_terms = plan_.row_terms.data();
        for (std::size_t i = 0; i < bags; ++i) {
            for (std::size_t k = ends[i]; k < ends[i + 1]; ++k) {
                std::uint32_t& next = begins_[terms_[k]];
                row_terms[next] = static_cast<std::uint16_t>(1 + i);
                next += SumQuad::kSums;
            }
        }
        chunk.last_bag_quad = static_cast<std::uint32_t>(plan_.bag_quads.size());
        chunk.last_row_quad = static_cast<std::uint32_t>(plan_.row_quads.size());
        plan_.chunks.push_back(chunk);
    }

    // Writes the rows of the slab that a bag reads: its rows that are in no group, then one sum for each group of which
    // it has rows. Returns how many. Without branches: what is not wanted is overwritten by the next term.
    template <class Number>
    std::uint32_t fill_bag(const PlanTile& tile, std::size_t bag, std::uint16_t* terms) const {
        const auto* features = static_cast<const Number*>(features_.data);
        const std::uint16_t* codes = codes_.data();
        std::uint64_t bits = 0;
        std::size_t size = 0;
        const std::size_t end = offsets_[bag + 1];
        for (std::size_t k = offsets_[bag]; k < end; ++k) {
            const unsigned code = codes[features[k]];
            const unsigned group_bit = code & 63U;
            const std::uint64_t bit = std::uint64_t{code >> 15} << group_bit;  // 0 if the row is in no group
            if ((bits & bit) != 0) [[unlikely]] {                              // a feature that the bag has twice
                terms[size++] = static_cast<std::uint16_t>(1 + plan_.grouped[tile.first_grouped + group_bit]);
                continue;
            }
            bits |= bit;
            terms[size] = static_cast<std::uint16_t>(code);
            size += code < kGrouped ? 1 : 0;
        }
        for (std::size_t g = 0; g < tile.groups; ++g) {
            const std::uint64_t group_rows = bits >> (g * kGroupBits) & ((1U << kGroupBits) - 1U);
            terms[size] = static_cast<std::uint16_t>(tile.sums_of(g) + group_rows);
            size += group_rows != 0 ? 1 : 0;
        }
        return static_cast<std::uint32_t>(size);
    }

    // Writes to sorted_ the sums 0 .. count - 1, the longest first; sum i has sizes[i] terms. Returns how many have
    // terms. A counting sort.
    std::size_t sort_by_size(const std::uint16_t* sizes, std::size_t count) {
        const std::size_t max_size = *std::max_element(sizes, sizes + count);
        positions_.assign(max_size + 1, 0);
        for (std::size_t i = 0; i < count; ++i) ++positions_[sizes[i]];
        std::uint32_t total = 0;
        for (std::size_t size = max_size; size > 0; --size) total += std::exchange(positions_[size], total);
        positions_[0] = total;
        sorted_.resize(count);
        for (std::size_t i = 0; i < count; ++i) sorted_[positions_[sizes[i]]++] = static_cast<std::uint16_t>(i);
        return total;
    }

    // Appends quads for the first `count` sums of sorted_. The terms of sum i go to begins_[i] and every fourth
    // position after it.
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
        terms.resize(end);  // zeros: a shorter sum of a quad adds the row of zeros
    }

    PlanArrays plan_;
    const std::uint32_t* offsets_;
    Numbers features_;
    std::vector<std::uint16_t> codes_;  // by feature, for the current tile; see kGrouped
    std::vector<std::uint32_t> uses_;   // of each of the plan's rows
    std::vector<std::uint16_t> frequent_;
    std::vector<std::uint16_t> terms_;      // of the current chunk, bag after bag
    std::vector<std::uint16_t> counts_;     // by row of the slab: its terms in the current chunk
    std::vector<std::uint32_t> positions_;  // by size: where the next sum goes in sorted_
    std::vector<std::uint16_t> sorted_;
    std::vector<std::uint32_t> begins_;
};

}  // namespace

PlanArrays build_plan(Offsets offsets, const Numbers& features, std::size_t num_features,
                      const std::vector<std::uint32_t>& order) {
    for (std::size_t bag = 0; bag + 1 < offsets.size; ++bag) {
        if (offsets.data[bag + 1] - offsets.data[bag] > kMaxFeatures) return {};
    }
    Tiles tiles = find_tiles(offsets, features, num_features, order);
    if (!tiles.is_worthwhile) return {};
    const std::vector<Tile> tile_list = tiles.tiles;
    Builder builder(offsets, features, num_features, std::move(tiles));
    return features.wide ? builder.build<std::uint32_t>(tile_list) : builder.build<std::uint16_t>(tile_list);
}

}  // namespace sparsepool
