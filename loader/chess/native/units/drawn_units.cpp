#include "chess/native/units/drawn_units.h"

#include <algorithm>
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

Header header_at(std::string_view drawn, std::size_t place) {
    Header header;
    if (place > drawn.size() || drawn.size() - place < sizeof header) throw std::out_of_range("no drawn unit is there");
    std::memcpy(&header, drawn.data() + place, sizeof header);
    if (drawn.size() - place - sizeof header < header.size) throw std::out_of_range("a drawn unit is cut off");
    return header;
}

// Calls visit(header, bytes of the unit) for each.
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
    for (std::size_t place = 0; place < drawn.size();) {
        const Header header = header_at(drawn, place);
        visit(header, drawn.data() + place + sizeof header);
        place += sizeof header + header.size;
    }
}

// Two passes, both in the order of the input: how much each bucket gets, then each unit to the end of its bucket.
template <class Source>
Buckets partition_by_draw(const Source& source, unsigned shift) {
    const auto bucket_of = [shift](const Header& header) { return header.draw >> shift & (kBuckets - 1); };
    std::array<std::uint64_t, kBuckets> sizes{};
    for_each(source,
             [&](const Header& header, const char*) { sizes[bucket_of(header)] += sizeof header + header.size; });
    Buckets found;
    found.begin[0] = 0;
    for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
        found.begin[bucket + 1] = found.begin[bucket] + sizes[bucket];
    }
    found.units.resize(found.begin[kBuckets]);
    std::array<std::uint64_t, kBuckets> next{};
    std::copy_n(found.begin.begin(), kBuckets, next.begin());
    for_each(source, [&](const Header& header, const char* bytes) {
        std::uint64_t& place = next[bucket_of(header)];
        std::memcpy(found.units.data() + place, &header, sizeof header);
        std::memcpy(found.units.data() + place + sizeof header, bytes, header.size);
        place += sizeof header + header.size;
    });
    return found;
}

}  // namespace

Buckets partition_into_buckets(std::span<const UnitsAndDraws> blocks, unsigned shift) {
    return partition_by_draw(blocks, shift);
}

Buckets partition_into_buckets(std::string_view drawn, unsigned shift) { return partition_by_draw(drawn, shift); }

std::vector<std::uint64_t> sort_by_draw(std::string_view drawn) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> found;  // draw, place: so equal draws keep their order
    for (std::size_t place = 0; place < drawn.size();) {
        const Header header = header_at(drawn, place);
        found.emplace_back(header.draw, place);
        place += sizeof header + header.size;
    }
    std::sort(found.begin(), found.end());
    std::vector<std::uint64_t> places(found.size());
    std::transform(found.begin(), found.end(), places.begin(), [](const auto& each) { return each.second; });
    return places;
}

UnitBlock units_at(std::string_view drawn, std::span<const std::uint64_t> places) {
    UnitBlock block;
    block.ends.reserve(places.size());
    block.entries.reserve(places.size());
    std::uint64_t end = 0;
    for (const std::uint64_t place : places) {
        const Header header = header_at(drawn, place);
        block.ends.push_back(end += header.size);
        block.entries.push_back(header.entries);
    }
    block.bytes.reserve(end);
    for (std::size_t unit = 0; unit < places.size(); ++unit) {
        const std::uint64_t begin = unit == 0 ? 0 : block.ends[unit - 1];
        block.bytes.append(drawn.substr(places[unit] + sizeof(Header), block.ends[unit] - begin));
    }
    return block;
}

}  // namespace sparsepool::chess
