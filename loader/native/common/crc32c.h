#pragma once

#include <cstddef>
#include <cstdint>

// CRC-32C (Castagnoli; polynomial 0x1EDC6F41 reflected, as in iSCSI, RFC 3720 B.4): tells a complete copy from a torn
// one.
namespace sparsepool {

// The checksum of data that continues: `before` is the checksum of the bytes before these `size` bytes, or 0.
std::uint32_t crc32c(const std::uint8_t* data, std::size_t size, std::uint32_t before);

}  // namespace sparsepool
