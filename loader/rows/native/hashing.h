#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <string_view>

namespace sparsepool::rows {

// XXH64 of the bytes, whose values are fixed for ever (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md).
[[nodiscard]] inline std::uint64_t hash_of(std::string_view bytes, std::uint64_t seed) {
    return ::XXH64(bytes.data(), bytes.size(), seed);
}

}  // namespace sparsepool::rows
