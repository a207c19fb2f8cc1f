#include "chess/native/units/units.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "chess/native/make_record.h"
#include "common/check.h"

namespace sparsepool::chess {
namespace {

// Units that end with their last entry.
void cut_others(Walk& walk, UnitBlock& block) {
    for (std::uint64_t units = 0; walk.next() != nullptr;) {
        if (std::exchange(units, walk.units()) != units) {
            block.ends.push_back(0);
            block.entries.push_back(0);
        }
        block.ends.back() = walk.at();
        ++block.entries.back();
    }
}

// A game without moves is one, too.
void cut_sought(Walk& walk, const SoughtUnits& units, std::string_view bytes, UnitBlock& block) {
    while (walk.next() != nullptr) {
        block.entries.resize(walk.units());
        ++block.entries.back();
    }
    const std::size_t damaged = walk.damage() ? 1 : 0;
    block.entries.resize(walk.units() - std::min<std::size_t>(walk.units(), damaged));
    std::size_t end = 0;
    for (std::size_t game = 0; game < block.entries.size(); ++game) {
        end = std::min(units.end_of(bytes, end), bytes.size());  // of text, the last one's is not to be seen
        block.ends.push_back(end);
    }
}

void cut(const Codec& codec, Walk& walk, std::string_view bytes, UnitBlock& block) {
    if (const SoughtUnits* units = codec.sought()) {
        cut_sought(walk, *units, bytes, block);
    } else {
        cut_others(walk, block);
    }
}

}  // namespace

UnitBlock read_units(const EntryFile& file, std::size_t piece) {
    Piece read = file.read(piece);
    UnitBlock block;
    {
        const std::unique_ptr<Walk> walk = file.walk(read, file.demands());
        cut(file.codec(), *walk, read.bytes, block);
        const std::optional<Damage> damage = walk->damage();
        block.fault = damage ? file.fault_of(piece, read, *damage) : std::move(read.fault);
    }
    block.bytes = std::move(read.bytes);
    block.bytes.resize(block.ends.empty() ? 0 : block.ends.back());
    if (file.codec().is_text() && !block.bytes.empty() && block.bytes.back() != '\n') {
        block.bytes.push_back('\n');
        ++block.ends.back();
    }
    return block;
}

UnitBlock cut_units(const Codec& codec, std::string_view file) {
    UnitBlock block;
    block.bytes = codec.units_of(file);
    cut(codec, *codec.walk(block.bytes, {}), block.bytes, block);
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
