#include "chess/native/units/units.h"

#include <algorithm>
#include <utility>

#include "chess/native/make_record.h"

namespace sparsepool::chess {
namespace {

// Records and lines: each entry is one.
void cut_singles(Walk& walk, UnitBlock& block) {
    while (walk.next() != nullptr) {
        block.ends.push_back(walk.at());
        block.entries.push_back(1);
    }
}

// A game without moves is one, too.
void cut_games(Walk& walk, const Games& games, std::string_view bytes, UnitBlock& block) {
    while (walk.next() != nullptr) {
        block.entries.resize(walk.units());
        ++block.entries.back();
    }
    const std::size_t damaged = walk.damage() ? 1 : 0;
    block.entries.resize(walk.units() - std::min<std::size_t>(walk.units(), damaged));
    std::size_t end = 0;
    for (std::size_t game = 0; game < block.entries.size(); ++game) {
        end = games.end_of(bytes, end);
        block.ends.push_back(end);
    }
}

void cut(const Codec& codec, Walk& walk, std::string_view bytes, UnitBlock& block) {
    if (const Games* games = codec.games()) {
        cut_games(walk, *games, bytes, block);
    } else {
        cut_singles(walk, block);
    }
}

}  // namespace

UnitBlock read_units(const EntryFile& file, std::size_t piece) {
    Piece read = file.read(piece);
    UnitBlock block;
    {
        Walk walk = file.walk(read);
        cut(file.codec(), walk, read.bytes, block);
        const std::optional<Damage> damage = walk.damage();
        block.fault = damage ? file.fault_of(piece, read, *damage) : std::move(read.fault);
    }
    block.bytes = std::move(read.bytes);
    block.bytes.resize(block.ends.empty() ? 0 : block.ends.back());
    const bool lines = file.codec().unit_bytes() == 0 && file.codec().games() == nullptr;
    if (lines && !block.bytes.empty() && block.bytes.back() != '\n') {
        block.bytes.push_back('\n');
        ++block.ends.back();
    }
    return block;
}

UnitBlock cut_units(const Codec& codec, std::string_view bytes) {
    UnitBlock block;
    Walk walk(codec.kernels(), {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
    cut(codec, walk, bytes, block);
    block.bytes = bytes.substr(0, block.ends.empty() ? 0 : block.ends.back());
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
        Walk walk(codec.kernels(), {reinterpret_cast<const std::uint8_t*>(one.data()), one.size()});
        if (const Entry* entry = walk.next()) records[unit] = make_record(*entry);
    }
    return records;
}

}  // namespace sparsepool::chess
