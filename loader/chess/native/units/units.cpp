#include "chess/native/units/units.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <ranges>
#include <utility>

#include "chess/native/make_record.h"
#include "common/check.h"

namespace sparsepool::chess {
namespace {

// Units that end with their last entry: where each ends, and its entries.
void cut_after_entries(Walk& walk, UnitBlock& block) {
    for (std::uint64_t units = 0; walk.next() != nullptr;) {
        if (std::exchange(units, walk.units()) != units) {
            block.ends.push_back(0);
            block.entries.push_back(0);
        }
        block.ends.back() = walk.offset();
        ++block.entries.back();
    }
}

// The entries of units whose ends are looked for. A game without moves is one, too.
void count_entries(Walk& walk, UnitBlock& block) {
    while (walk.next() != nullptr) {
        block.entries.resize(walk.units());
        ++block.entries.back();
    }
    const std::size_t damaged = walk.damage() ? 1 : 0;
    block.entries.resize(walk.units() - std::min<std::size_t>(walk.units(), damaged));
    for (const Extent& extent : std::views::reverse(walk.skipped().extents))
        block.entries.erase(block.entries.begin() + static_cast<std::ptrdiff_t>(extent.number));
}

void find_ends(const ScannedUnits& units, UnitBlock& block) {
    std::size_t end = 0;
    for (std::size_t game = 0; game < block.entries.size(); ++game) {
        end = std::min(units.find_end(block.bytes, end),
                       block.bytes.size());  // of text, the last one's is not to be seen
        block.ends.push_back(end);
    }
}

// Takes the bytes of units that were left out away. A line that goes on in one of them ends before it.
void remove_extents(std::span<const Extent> extents, bool is_text, UnitBlock& block) {
    std::string kept;
    std::uint64_t begin = 0;
    auto end = block.ends.begin();
    for (const Extent& extent : extents) {
        const std::uint64_t dropped = begin - kept.size();
        for (; end != block.ends.end() && *end <= extent.begin; ++end) *end -= dropped;
        kept.append(block.bytes, begin, extent.begin - begin);
        if (is_text && !kept.empty() && kept.back() != '\n') kept.push_back('\n');
        begin = extent.end;
    }
    for (; end != block.ends.end(); ++end) *end -= begin - kept.size();
    kept.append(block.bytes, begin);
    block.bytes = std::move(kept);
}

// Cuts `bytes` into the good units that the walk finds in them.
UnitBlock cut(const Codec& codec, Walk& walk, std::string& bytes) {
    UnitBlock block;
    if (codec.scanned_units() == nullptr) {
        cut_after_entries(walk, block);
    } else {
        count_entries(walk, block);
    }
    block.bytes = std::move(bytes);
    const SkippedTally& skipped = walk.skipped();
    if (!skipped.extents.empty()) remove_extents(skipped.extents, codec.is_text(), block);
    if (codec.scanned_units() != nullptr) find_ends(*codec.scanned_units(), block);
    block.cuts_units = skipped.cuts_units;
    block.unscored = walk.unscored();
    return block;
}

}  // namespace

UnitBlock read_units(const EntryFile& file, std::size_t piece) {
    Piece read = file.read(piece);
    const std::unique_ptr<Walk> walk = file.walk(read, file.options());
    UnitBlock block = cut(file.codec(), *walk, read.bytes);
    const std::optional<Damage> damage = walk->damage();
    block.fault = damage ? file.fault_of(piece, read, *damage) : std::move(read.fault);
    block.skipped = file.skipped(piece, read, walk->skipped());
    block.bytes.resize(block.ends.empty() ? 0 : block.ends.back());
    if (file.codec().is_text() && !block.bytes.empty() && block.bytes.back() != '\n') {
        block.bytes.push_back('\n');
        ++block.ends.back();
    }
    return block;
}

UnitBlock cut_units(const Codec& codec, std::string_view file) {
    std::string bytes = codec.units_of(file);
    const std::unique_ptr<Walk> walk = codec.walk(bytes, {});
    UnitBlock block = cut(codec, *walk, bytes);
    require(block.bytes.size() == (block.ends.empty() ? 0 : block.ends.back()), "what was written does not read");
    return block;
}

void gather(std::string_view bytes, std::span<const std::uint64_t> begins, std::span<const std::uint64_t> ends,
            std::span<const std::uint64_t> order, std::string& out) {
    std::size_t size = 0;
    for (const std::uint64_t unit : order) size += ends[unit] - begins[unit];
    out.reserve(out.size() + size);
    for (const std::uint64_t unit : order) out.append(bytes.substr(begins[unit], ends[unit] - begins[unit]));
}

std::vector<Record> first_entries(const Codec& codec, std::string_view bytes, std::span<const std::uint64_t> begins) {
    std::vector<Record> records(begins.size());
    for (std::size_t unit = 0; unit < begins.size(); ++unit) {
        const std::size_t end = unit + 1 < begins.size() ? begins[unit + 1] : bytes.size();
        const std::string_view one = bytes.substr(begins[unit], end - begins[unit]);
        const std::unique_ptr<Walk> walk = codec.walk(one, {});
        if (const Entry* entry = walk->next()) records[unit] = make_record(*entry);
    }
    return records;
}

}  // namespace sparsepool::chess
