#include "chess/native/formats/position_key.h"

#include <limits>

#include "chess/native/formats/storable.h"

namespace sparsepool::chess {
namespace {

constexpr std::uint64_t kStateMask = (1U << 24) - 1;

std::uint64_t state_of(const PositionKey& key) { return key[3] & kStateMask; }

bool are_same_keys(const PositionKey& a, const PositionKey& b) {
    return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && state_of(a) == state_of(b);
}

// Packs what is not on the board: bit 0 side to move, 1-4 castling rights, 5-16 files of their rooks, 17-23 en-passant
// square.
std::uint64_t pack_state(const Position& position) {
    return std::uint64_t{position.side} | std::uint64_t{position.castling} << 1 |
           std::uint64_t{active_rook_files(position)} << 5 | std::uint64_t{capturable_ep_square(position)} << 17;
}

// Mixes a word into a hash by multiplications and shifts, as splitmix64 does: each bit of the result depends on every
// bit of both.
std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15U;  // 2^64 / golden ratio
    hash ^= hash >> 32;
    hash *= 0xD6E8FEB86659FD93U;
    return hash ^ hash >> 29;
}

}  // namespace

PositionKey key_of(const Position& position) {
    std::uint64_t planes[4];
    for (unsigned i = 0; i < 4; ++i) planes[i] = extract_bits(position.planes[i], position.occupied);
    return {position.occupied, planes[0] | planes[1] << 32, planes[2] | planes[3] << 32, pack_state(position)};
}

PositionKey key_of(const Position& position, const Record& record) {
    const std::uint64_t low = record.planes[0] | std::uint64_t{record.planes[1]} << 32;
    const std::uint64_t high = record.planes[2] | std::uint64_t{record.planes[3]} << 32;
    return {position.occupied, low, high, pack_state(position)};
}

std::uint64_t hash_of(const PositionKey& key) {
    std::uint64_t hash = 0;
    for (unsigned i = 0; i < 3; ++i) hash = mix(hash, key[i]);
    return mix(hash, state_of(key));
}

std::vector<std::uint8_t> first_of_keys(std::span<const PositionKey> keys) {
    constexpr auto kEmpty = std::numeric_limits<std::uint32_t>::max();
    std::size_t num_slots = 16;  // a power of two, of which at most half is used
    while (num_slots < 2 * keys.size()) num_slots *= 2;
    std::vector<std::uint32_t> table(num_slots, kEmpty);  // open addressing: slot -> index of a key
    std::vector<std::uint8_t> is_first(keys.size());
    for (std::uint32_t i = 0; i < keys.size(); ++i) {
        std::size_t slot = hash_of(keys[i]) & (num_slots - 1);
        while (table[slot] != kEmpty && !are_same_keys(keys[table[slot]], keys[i])) slot = (slot + 1) & (num_slots - 1);
        if (table[slot] != kEmpty) continue;
        table[slot] = i;
        is_first[i] = 1;
    }
    return is_first;
}

}  // namespace sparsepool::chess
