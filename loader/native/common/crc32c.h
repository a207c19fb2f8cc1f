#pragma once

#include <cstddef>
#include <cstdint>

// CRC-32C (Castagnoli; polynomial 0x1EDC6F41 reflected, as in iSCSI, RFC 3720 B.4): tells a whole copy from a torn one.
namespace sparsepool {

// Of `size` bytes, going on from the sum of what came before them (0: nothing).
std::uint32_t crc32c(const std::uint8_t* data, std::size_t size, std::uint32_t before);

}  // namespace sparsepool
