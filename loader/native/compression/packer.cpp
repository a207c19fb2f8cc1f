#include "compression/packer.h"

#include <zstd.h>

#include <new>
#include <stdexcept>

namespace sparsepool::packed {

ZstdPacker::ZstdPacker(int level) : zstd_(::ZSTD_createCCtx()) {
    if (zstd_ == nullptr) throw std::bad_alloc();
    ::ZSTD_CCtx_setParameter(zstd_, ZSTD_c_compressionLevel, level);
    ::ZSTD_CCtx_setParameter(zstd_, ZSTD_c_checksumFlag, 1);
}

ZstdPacker::~ZstdPacker() { ::ZSTD_freeCCtx(zstd_); }

std::string ZstdPacker::pack(std::span<const std::uint8_t> bytes, bool last) {
    ::ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    std::string packed;
    std::string part(::ZSTD_CStreamOutSize(), '\0');
    std::size_t left = 0;
    do {
        ::ZSTD_outBuffer out{part.data(), part.size(), 0};
        left = ::ZSTD_compressStream2(zstd_, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
        if (::ZSTD_isError(left) != 0) throw std::runtime_error(::ZSTD_getErrorName(left));
        packed.append(part, 0, out.pos);
    } while (last ? left != 0 : in.pos < in.size);
    return packed;
}

}  // namespace sparsepool::packed
