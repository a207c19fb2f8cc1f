#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

// Floats of our own.
namespace sparsepool {

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
