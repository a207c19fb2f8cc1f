#include "chess/native/files/codec.h"

#include <cstring>

namespace sparsepool::chess {

// Reads one lane after the other; formats that gain by it read them in turn.
void Codec::read_lanes(std::span<Lane> lanes, std::size_t count, bool checks) const {
    for (Lane& lane : lanes) {
        const std::size_t read = lane.walk->read(lane.out, count, checks);
        lane.out += read;
        lane.at_end = read < count;
    }
}

// Whether the bytes decode to at least one entry, without other damage than that they end too early.
bool Codec::begins_a_file(std::string_view head) const {
    const std::unique_ptr<Walk> head_walk = walk(head, {});
    bool has_entry = false;
    while (head_walk->next() != nullptr) has_entry = true;
    const std::optional<Damage> damage = head_walk->damage();
    return has_entry && (!damage || damage->truncated);
}

std::size_t Games::find_end(std::string_view bytes, std::size_t begin) const {
    constexpr std::size_t kPairBytes = 4;  // a move and a score; zeros end the game (formats/games.h)
    for (std::size_t offset = begin + header_; offset + kPairBytes <= bytes.size(); offset += kPairBytes) {
        std::uint32_t pair = 0;
        std::memcpy(&pair, bytes.data() + offset, sizeof pair);
        if (pair == 0) return offset + kPairBytes;
    }
    return std::string_view::npos;
}

// Returns where the last complete unit ends.
std::size_t ScannedUnits::whole(std::string_view bytes, std::size_t) const {
    std::size_t whole = 0;
    std::size_t end = 0;
    while (end != std::string_view::npos) {
        whole = end;
        end = find_end(bytes, whole);
    }
    return whole;
}

// Counts the units of bytes that end with a complete unit.
std::uint64_t ScannedUnits::count(std::string_view whole) const {
    std::uint64_t units = 0;
    std::size_t offset = 0;
    while (offset < whole.size()) {
        offset = find_end(whole, offset);
        ++units;
    }
    return units;
}

}  // namespace sparsepool::chess
