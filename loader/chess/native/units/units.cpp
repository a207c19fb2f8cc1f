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

// Finds the ends and numbers of entries of units that end with their last entry.
void cut_after_entries(Walk& walk, UnitBlock& block) {
    std::uint64_t units = 0;
    while (walk.next() != nullptr) {
        if (walk.units() != units) {
            units = walk.units();
            block.ends.push_back(0);
            block.entries.push_back(0);
        }
        block.ends.back() = walk.offset();
        ++block.entries.back();
    }
}

// Finds the numbers of entries of units whose ends are looked for. A game without moves is a unit, too.
void count_entries(Walk& walk, UnitBlock& block) {
    while (walk.next() != nullptr) {
        block.entries.resize(walk.units());
        ++block.entries.back();
    }
    const std::size_t num_damaged = walk.damage() ? 1 : 0;  // the last unit
    block.entries.resize(walk.units() - std::min<std::size_t>(walk.units(), num_damaged));
    for (const Extent& skipped : std::views::reverse(walk.skipped().extents))
        block.entries.erase(block.entries.begin() + static_cast<std::ptrdiff_t>(skipped.number));
}

void find_ends(const ScannedUnits& units, UnitBlock& block) {
    std::size_t end = 0;
    for (std::size_t unit = 0; unit < block.entries.size(); ++unit) {
        // The last unit of a text may go on to the end of the bytes: find_end does not see that then.
        end = std::min(units.find_end(block.bytes, end), block.bytes.size());
        block.ends.push_back(end);
    }
}

// Removes the bytes of skipped units, and moves the ends of the others. A line of a text that is cut off by that gets
// an end.
void remove_extents(std::span<const Extent> extents, bool is_text, UnitBlock& block) {
    std::string remaining;
    std::uint64_t begin = 0;  // of the bytes that are not copied yet
    auto end = block.ends.begin();
    for (const Extent& extent : extents) {
        const std::uint64_t removed = begin - remaining.size();
        for (; end != block.ends.end() && *end <= extent.begin; ++end) *end -= removed;
        remaining.append(block.bytes, begin, extent.begin - begin);
        if (is_text && !remaining.empty() && remaining.back() != '\n') remaining.push_back('\n');
        begin = extent.end;
    }
    for (; end != block.ends.end(); ++end) *end -= begin - remaining.size();
    remaining.append(block.bytes, begin);
    block.bytes = std::move(remaining);
}

// Cuts `bytes` into the good units that the walk through them finds.
UnitBlock cut_into_units(const Codec& codec, Walk& walk, std::string& bytes) {
    const ScannedUnits* scanned_units = codec.scanned_units();
    UnitBlock block;
    if (scanned_units == nullptr) {
        cut_after_entries(walk, block);
    } else {
        count_entries(walk, block);
    }
    block.bytes = std::move(bytes);
    const SkippedTally& skipped = walk.skipped();
    if (!skipped.extents.empty()) remove_extents(skipped.extents, codec.is_text(), block);
    if (scanned_units != nullptr) find_ends(*scanned_units, block);
    block.cuts_units = skipped.cuts_units;
    block.unscored = walk.unscored();
    return block;
}

}  // namespace

UnitBlock read_units(const EntryFile& file, std::size_t piece) {
    Piece read = file.read(piece);
    const std::unique_ptr<Walk> walk = file.walk(read, file.options());
    UnitBlock block = cut_into_units(file.codec(), *walk, read.bytes);
    const std::optional<Damage> damage = walk->damage();
    block.fault = damage ? file.fault_of(piece, read, *damage) : std::move(read.fault);
    block.skipped = file.skipped(piece, read, walk->skipped());
    block.bytes.resize(block.ends.empty() ? 0 : block.ends.back());  // without a damaged unit at the end
    if (file.codec().is_text() && !block.bytes.empty() && block.bytes.back() != '\n') {
        block.bytes.push_back('\n');
        ++block.ends.back();
    }
    return block;
}

UnitBlock cut_units(const Codec& codec, std::string_view file) {
    std::string bytes = codec.units_of(file);
    const std::unique_ptr<Walk> walk = codec.walk(bytes, {});
    UnitBlock block = cut_into_units(codec, *walk, bytes);
    require(block.bytes.size() == (block.ends.empty() ? 0 : block.ends.back()), "what was written does not read");
    return block;
}

void append_units(std::string_view bytes, std::span<const std::uint64_t> begins, std::span<const std::uint64_t> ends,
                  std::span<const std::uint64_t> order, std::string& out) {
    std::size_t size = 0;
    for (const std::uint64_t unit : order) size += ends[unit] - begins[unit];
    out.reserve(out.size() + size);
    for (const std::uint64_t unit : order) out.append(bytes.substr(begins[unit], ends[unit] - begins[unit]));
}

// A unit ends where the next one begins.
std::vector<Record> first_entries(const Codec& codec, std::string_view bytes, std::span<const std::uint64_t> begins) {
    std::vector<Record> records(begins.size());
    for (std::size_t unit = 0; unit < begins.size(); ++unit) {
        const std::size_t end = unit + 1 < begins.size() ? begins[unit + 1] : bytes.size();
        const std::string_view unit_bytes = bytes.substr(begins[unit], end - begins[unit]);
        const std::unique_ptr<Walk> walk = codec.walk(unit_bytes, {});
        if (const Entry* entry = walk->next()) records[unit] = make_record(*entry);
    }
    return records;
}

}  // namespace sparsepool::chess
