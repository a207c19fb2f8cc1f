#include "chess/native/files/codec.h"

#include <cstring>

namespace sparsepool::chess {

void Codec::read_lanes(std::span<Lane> lanes, std::size_t count, bool checks) const {
    for (Lane& lane : lanes) {
        const std::size_t read = lane.walk->read(lane.out, count, checks);
        lane.out += read;
        lane.at_end = read < count;
    }
}

bool Codec::begins_a_file(std::string_view head) const {
    const std::unique_ptr<Walk> through = walk(head, {});
    bool has_entry = false;
    while (through->next() != nullptr) has_entry = true;
    const std::optional<Damage> damage = through->damage();
    return has_entry && (!damage || damage->cut);
}

std::size_t Games::find_end(std::string_view bytes, std::size_t begin) const {
    for (std::size_t at = begin + header_; at + 4 <= bytes.size(); at += 4) {
        std::uint32_t word = 0;
        std::memcpy(&word, bytes.data() + at, sizeof word);
        if (word == 0) return at + 4;
    }
    return std::string_view::npos;
}

std::size_t ScannedUnits::whole(std::string_view bytes, std::size_t) const {
    std::size_t whole = 0;
    for (std::size_t end = 0; end != std::string_view::npos; end = find_end(bytes, whole)) whole = end;
    return whole;
}

std::uint64_t ScannedUnits::count(std::string_view whole) const {
    std::uint64_t units = 0;
    for (std::size_t at = 0; at < whole.size(); at = find_end(whole, at)) ++units;
    return units;
}

}  // namespace sparsepool::chess
