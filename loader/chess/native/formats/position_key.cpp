#include "chess/native/formats/position_key.h"

#include <limits>

#include "chess/native/formats/storable.h"

namespace sparsepool::chess {
namespace {

constexpr std::uint64_t kState = (1U << 24) - 1;

std::uint64_t state_of(const PositionKey& key) { return key[3] & kState; }

bool is_same_key(const PositionKey& a, const PositionKey& b) {
    return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && state_of(a) == state_of(b);
}

std::uint64_t new_state(const Position& position) {
    return std::uint64_t{position.side} | std::uint64_t{position.castling} << 1 |
           std::uint64_t{active_rook_files(position)} << 5 | std::uint64_t{capturable_ep_square(position)} << 17;
}

// Each bit of the result depends on each of both.
std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 32;
    hash *= 0xD6E8FEB86659FD93U;
    return hash ^ hash >> 29;
}

}  // namespace

PositionKey key_of(const Position& position) {
    std::uint64_t planes[4];
    for (unsigned i = 0; i < 4; ++i) planes[i] = extract_bits(position.planes[i], position.occupied);
    return {position.occupied, planes[0] | planes[1] << 32, planes[2] | planes[3] << 32, new_state(position)};
}

PositionKey key_of(const Position& position, const Record& record) {
    const std::uint64_t low = record.planes[0] | std::uint64_t{record.planes[1]} << 32;
    const std::uint64_t high = record.planes[2] | std::uint64_t{record.planes[3]} << 32;
    return {position.occupied, low, high, new_state(position)};
}

std::uint64_t hash_of(const PositionKey& key) {
    std::uint64_t hash = 0;
    for (unsigned i = 0; i < 3; ++i) hash = mix(hash, key[i]);
    return mix(hash, state_of(key));
}

std::vector<std::uint8_t> first_of_keys(std::span<const PositionKey> keys) {
    constexpr auto kEmpty = std::numeric_limits<std::uint32_t>::max();
    std::size_t slots = 16;
    while (slots < 2 * keys.size()) slots *= 2;
    std::vector<std::uint32_t> table(slots, kEmpty);  // numbers of keys
    std::vector<std::uint8_t> first(keys.size());
    for (std::uint32_t i = 0; i < keys.size(); ++i) {
        std::size_t slot = hash_of(keys[i]) & (slots - 1);
        while (table[slot] != kEmpty && !is_same_key(keys[table[slot]], keys[i])) slot = (slot + 1) & (slots - 1);
        if (table[slot] != kEmpty) continue;
        table[slot] = i;
        first[i] = 1;
    }
    return first;
}

}  // namespace sparsepool::chess
