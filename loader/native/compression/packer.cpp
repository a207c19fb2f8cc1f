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
    std::string buffer(zstd_.encoded_size(), '\0');
    while (true) {
        ZstdOutput out{buffer.data(), buffer.size(), 0};
        // Returns an error, or how much the encoder still holds back.
        const std::size_t status = zstd_.encode(encoder_, &out, &in, last ? Zstd::kEnd : Zstd::kContinue);
        if (zstd_.is_error(status) != 0) throw std::runtime_error(zstd_.error_name(status));
        packed.append(buffer, 0, out.used);
        const bool is_done = last ? status == 0 : in.used == in.size;
        if (is_done) return packed;
    }
}

}  // namespace sparsepool::packed
