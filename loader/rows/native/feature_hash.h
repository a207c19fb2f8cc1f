#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace sparsepool::rows {

namespace xxh64 {

inline constexpr std::uint64_t kPrimes[] = {0x9E3779B185EBCA87U, 0xC2B2AE3D27D4EB4FU, 0x165667B19E3779F9U,
                                            0x85EBCA77C2B2AE63U, 0x27D4EB2F165667C5U};

template <typename Number>
[[nodiscard]] std::uint64_t load(const char* at) {
    Number number;
    std::memcpy(&number, at, sizeof number);
    return number;
}

[[nodiscard]] inline std::uint64_t round(std::uint64_t lane, std::uint64_t number) {
    return std::rotl(lane + number * kPrimes[1], 31) * kPrimes[0];
}

}  // namespace xxh64

// XXH64 of the bytes, whose values are fixed for ever (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md). Little
// endian, as all this project writes.
[[nodiscard]] inline std::uint64_t hash_of(std::string_view bytes, std::uint64_t seed) {
    using namespace xxh64;
    const char* at = bytes.data();
    std::size_t left = bytes.size();
    std::uint64_t sum = seed + kPrimes[4];
    if (left >= 32) {
        std::uint64_t lanes[4] = {seed + kPrimes[0] + kPrimes[1], seed + kPrimes[1], seed, seed - kPrimes[0]};
        for (; left >= 32; left -= 32) {
            for (std::uint64_t& lane : lanes) {
                lane = round(lane, load<std::uint64_t>(at));
                at += 8;
            }
        }
        sum = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
        for (const std::uint64_t lane : lanes) sum = (sum ^ round(0, lane)) * kPrimes[0] + kPrimes[3];
    }
    sum += bytes.size();
    for (; left >= 8; left -= 8, at += 8) {
        sum = std::rotl(sum ^ round(0, load<std::uint64_t>(at)), 27) * kPrimes[0] + kPrimes[3];
    }
    if (left >= 4) {
        sum = std::rotl(sum ^ load<std::uint32_t>(at) * kPrimes[0], 23) * kPrimes[1] + kPrimes[2];
        left -= 4;
        at += 4;
    }
    for (; left != 0; --left, ++at) {
        sum = std::rotl(sum ^ static_cast<std::uint8_t>(*at) * kPrimes[4], 11) * kPrimes[0];
    }
    sum = (sum ^ sum >> 33) * kPrimes[1];
    sum = (sum ^ sum >> 29) * kPrimes[2];
    return sum ^ sum >> 32;
}

}  // namespace sparsepool::rows
