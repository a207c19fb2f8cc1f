#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "compression/libraries.h"

namespace sparsepool::packed {

// Makes one zstd frame of bytes that come in parts. Not for two threads at once.
class ZstdPacker {
  public:
    ZstdPacker(const Zstd& zstd, int level);
    ~ZstdPacker();
    ZstdPacker(const ZstdPacker&) = delete;
    ZstdPacker& operator=(const ZstdPacker&) = delete;

    // What is done of the frame after these bytes; with `last` its end.
    [[nodiscard]] std::string pack(std::span<const std::uint8_t> bytes, bool last);

  private:
    const Zstd& zstd_;
    void* encoder_;
};

}  // namespace sparsepool::packed
