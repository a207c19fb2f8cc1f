#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "compression/libraries.h"

namespace sparsepool::packed {

// Compresses bytes that come in parts to one zstd frame. Not for two threads at once.
class ZstdPacker {
  public:
    ZstdPacker(const Zstd& zstd, int level);
    ~ZstdPacker();
    ZstdPacker(const ZstdPacker&) = delete;
    ZstdPacker& operator=(const ZstdPacker&) = delete;

    // Compresses the next bytes, with `last` the last ones. Returns what is ready of the frame.
    [[nodiscard]] std::string pack(std::span<const std::uint8_t> bytes, bool last);

  private:
    const Zstd& zstd_;
    void* encoder_;
};

}  // namespace sparsepool::packed
