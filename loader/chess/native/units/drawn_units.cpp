#include "chess/native/units/drawn_units.h"

#include <algorithm>
#include <compare>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

namespace sparsepool::chess {
namespace {

struct Header {
    std::uint64_t draw;
    std::uint32_t size;
    std::uint32_t entries;
};
static_assert(sizeof(Header) == kDrawnHeader);

// Reads the header of the drawn unit at this offset. Throws std::out_of_range if the unit is not within the bytes.
Header header_at(std::string_view drawn, std::size_t offset) {
    Header header;
    if (offset > drawn.size() || drawn.size() - offset < sizeof header)
        throw std::out_of_range("no drawn unit is there");
    std::memcpy(&header, drawn.data() + offset, sizeof header);
    if (drawn.size() - offset - sizeof header < header.size) throw std::out_of_range("a drawn unit is cut off");
    return header;
}

// Calls visit(header, bytes of the unit) for each unit.
template <class Visit>
void for_each(std::span<const UnitsAndDraws> blocks, Visit visit) {
    for (const UnitsAndDraws& block : blocks) {
        std::uint64_t begin = 0;
        for (std::size_t unit = 0; unit < block.ends.size(); ++unit) {
            const std::uint64_t end = block.ends[unit];
            if (end < begin || end > block.bytes.size()) throw std::out_of_range("a unit that is not within the bytes");
            const std::uint64_t size = end - begin;
            if (size > std::numeric_limits<std::uint32_t>::max()) throw std::length_error("a unit of 4 GiB or more");
            visit(Header{block.draws[unit], static_cast<std::uint32_t>(size), block.entries[unit]},
                  block.bytes.data() + begin);
            begin = end;
        }
    }
}

template <class Visit>
void for_each(std::string_view drawn, Visit visit) {
    std::size_t offset = 0;
    while (offset < drawn.size()) {
        const Header header = header_at(drawn, offset);
        visit(header, drawn.data() + offset + sizeof header);
        offset += sizeof header + header.size;
    }
}

// Partitions units by a byte of their draws, keeping their order within a bucket. Two passes: the first measures the
// buckets, the second copies each unit to the end of its bucket.
template <class Source>
Buckets partition_by_draw(const Source& source, unsigned shift) {
    const auto bucket_of = [shift](const Header& header) { return header.draw >> shift & (kBuckets - 1); };
    std::array<std::uint64_t, kBuckets> sizes{};
    for_each(source,
             [&](const Header& header, const char*) { sizes[bucket_of(header)] += sizeof header + header.size; });
    Buckets buckets;
    buckets.begin[0] = 0;
    for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
        buckets.begin[bucket + 1] = buckets.begin[bucket] + sizes[bucket];
    }
    buckets.units.resize(buckets.begin[kBuckets]);
    std::array<std::uint64_t, kBuckets> next{};  // offset of the next unit of each bucket
    std::copy_n(buckets.begin.begin(), kBuckets, next.begin());
    for_each(source, [&](const Header& header, const char* bytes) {
        std::uint64_t& offset = next[bucket_of(header)];
        std::memcpy(buckets.units.data() + offset, &header, sizeof header);
        std::memcpy(buckets.units.data() + offset + sizeof header, bytes, header.size);
        offset += sizeof header + header.size;
    });
    return buckets;
}

}  // namespace

Buckets partition_into_buckets(std::span<const UnitsAndDraws> blocks, unsigned shift) {
    return partition_by_draw(blocks, shift);
}

Buckets partition_into_buckets(std::string_view drawn, unsigned shift) { return partition_by_draw(drawn, shift); }

std::vector<std::uint64_t> sort_by_draw(std::string_view drawn) {
    struct DrawAndOffset {
        std::uint64_t draw;
        std::uint64_t offset;  // compared, too: so equal draws keep their order
        auto operator<=>(const DrawAndOffset&) const = default;
    };
    std::vector<DrawAndOffset> units;
    std::size_t offset = 0;
    while (offset < drawn.size()) {
        const Header header = header_at(drawn, offset);
        units.push_back({header.draw, offset});
        offset += sizeof header + header.size;
    }
    std::ranges::sort(units);
    std::vector<std::uint64_t> offsets;
    offsets.reserve(units.size());
    for (const DrawAndOffset& unit : units) offsets.push_back(unit.offset);
    return offsets;
}

// Two passes: the first checks the units and finds their ends, the second copies them.
UnitBlock units_at(std::string_view drawn, std::span<const std::uint64_t> offsets) {
    UnitBlock block;
    block.ends.reserve(offsets.size());
    block.entries.reserve(offsets.size());
    std::uint64_t end = 0;
    for (const std::uint64_t offset : offsets) {
        const Header header = header_at(drawn, offset);
        end += header.size;
        block.ends.push_back(end);
        block.entries.push_back(header.entries);
    }
    block.bytes.reserve(end);
    std::uint64_t begin = 0;
    for (std::size_t unit = 0; unit < offsets.size(); ++unit) {
        block.bytes.append(drawn.substr(offsets[unit] + sizeof(Header), block.ends[unit] - begin));
        begin = block.ends[unit];
    }
    return block;
}

}  // namespace sparsepool::chess
