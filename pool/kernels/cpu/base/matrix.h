#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "base/numbers.h"

// Views of memory, as the library's functions take them; the caller owns it.
namespace sparsepool {

constexpr std::size_t kMaxThreads = 1024;
constexpr std::size_t kStreamBytes = std::size_t{2} << 20;  // outputs from here on are stored past the caches

struct Offsets {
    const std::uint32_t* data;
    std::size_t size;
};

// Row after row, without gaps.
template <class Float>
struct MatrixOf {
    Float* data;
    std::size_t rows, columns;
};
using Matrix = MatrixOf<float>;
using ConstMatrix = MatrixOf<const float>;

// Whether each row begins on a cache line and the whole is too big to be found in a near cache again.
inline bool should_stream(const float* out, std::size_t rows, std::size_t columns) {
    return reinterpret_cast<std::uintptr_t>(out) % 64 == 0 && columns % 16 == 0 &&
           rows * columns * sizeof(float) >= kStreamBytes;
}

// Floats of our own.

// `size` floats that begin on a cache line.
class Floats {
  public:
    // What is in them is left open.
    explicit Floats(std::size_t size) : data_(static_cast<float*>(::operator new(size * sizeof(float), kLine))) {}

    static Floats zeros(std::size_t size) {
        Floats floats(size);
        std::fill_n(floats.data(), size, 0.0F);
        return floats;
    }

    float* data() const { return data_.get(); }

  private:
    static constexpr std::align_val_t kLine{64};
    struct Free {
        void operator()(float* data) const { ::operator delete(data, kLine); }
    };
    std::unique_ptr<float, Free> data_;
};

}  // namespace sparsepool
