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

// XXH64 of the bytes (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md): a hash that never changes. Blocks of 32
// bytes go to four lanes of 8 bytes; what remains is mixed in by 8, 4 and 1 bytes. Numbers are little endian.
[[nodiscard]] inline std::uint64_t hash_of(std::string_view bytes, std::uint64_t seed) {
    using namespace xxh64;
    const char* next = bytes.data();
    std::size_t remaining = bytes.size();
    std::uint64_t sum = seed + kPrimes[4];
    if (remaining >= 32) {
        std::uint64_t lanes[4] = {seed + kPrimes[0] + kPrimes[1], seed + kPrimes[1], seed, seed - kPrimes[0]};
        for (; remaining >= 32; remaining -= 32) {
            for (std::uint64_t& lane : lanes) {
                lane = round(lane, load<std::uint64_t>(next));
                next += 8;
            }
        }
        sum = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
        for (const std::uint64_t lane : lanes) sum = (sum ^ round(0, lane)) * kPrimes[0] + kPrimes[3];
    }
    sum += bytes.size();
    for (; remaining >= 8; remaining -= 8, next += 8) {
        sum = std::rotl(sum ^ round(0, load<std::uint64_t>(next)), 27) * kPrimes[0] + kPrimes[3];
    }
    if (remaining >= 4) {
        sum = std::rotl(sum ^ load<std::uint32_t>(next) * kPrimes[0], 23) * kPrimes[1] + kPrimes[2];
        remaining -= 4;
        next += 4;
    }
    for (; remaining != 0; --remaining, ++next) {
        sum = std::rotl(sum ^ static_cast<std::uint8_t>(*next) * kPrimes[4], 11) * kPrimes[0];
    }
    sum = (sum ^ sum >> 33) * kPrimes[1];
    sum = (sum ^ sum >> 29) * kPrimes[2];
    return sum ^ sum >> 32;
}

}  // namespace sparsepool::rows
