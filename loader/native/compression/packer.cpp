#include "compression/packer.h"

#include <new>
#include <stdexcept>

namespace sparsepool::packed {

ZstdPacker::ZstdPacker(const Zstd& zstd, int level) : zstd_(zstd), encoder_(zstd.make_encoder()) {
    if (encoder_ == nullptr) throw std::bad_alloc();
    zstd_.set_parameter(encoder_, Zstd::kLevel, level);
    zstd_.set_parameter(encoder_, Zstd::kChecksum, 1);
}

ZstdPacker::~ZstdPacker() { zstd_.free_encoder(encoder_); }

std::string ZstdPacker::pack(std::span<const std::uint8_t> bytes, bool last) {
    ZstdInput in{bytes.data(), bytes.size(), 0};
    std::string packed;
    std::string part(zstd_.encoded_size(), '\0');
    std::size_t left = 0;
    do {
        ZstdOutput out{part.data(), part.size(), 0};
        left = zstd_.encode(encoder_, &out, &in, last ? Zstd::kEnd : Zstd::kContinue);
        if (zstd_.is_error(left) != 0) throw std::runtime_error(zstd_.error_name(left));
        packed.append(part, 0, out.used);
    } while (last ? left != 0 : in.used < in.size);
    return packed;
}

}  // namespace sparsepool::packed
