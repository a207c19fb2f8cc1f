#include "sparse/plan/tiles.h"

#include <limits>
#include <utility>

namespace sparsepool {
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

}  // namespace sparsepool
