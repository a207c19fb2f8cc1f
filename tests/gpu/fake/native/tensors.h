#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "streams.h"

// Tensors on the device, and as a kernel has them.
namespace fakegpu {

constexpr auto kType = c10::DeviceType::PrivateUse1;

inline bool on_device(const at::Tensor& tensor) { return tensor.defined() && tensor.device().type() == kType; }

// A tensor as a launched kernel has it: an address and a shape. It keeps no memory alive. A number on the host (no
// dimensions) goes along by value.
class Argument {
  public:
    explicit Argument(const at::Tensor& tensor);
    bool is_defined() const { return kind_ != Kind::kNone; }
    at::Tensor tensor() const;  // in the stream's thread

  private:
    enum class Kind { kNone, kNumber, kDevice };
    Kind kind_;
    char* address_ = nullptr;
    std::vector<std::int64_t> sizes_, strides_;
    at::ScalarType dtype_ = at::kFloat;
    at::Tensor number_;
};

at::Tensor empty_strided_on(int device, c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType dtype);
const at::Tensor& resize(const at::Tensor& tensor, c10::IntArrayRef sizes);

// Before an operation of torch is put into a stream: the device must be sound. The runtime makes the context of the
// thread's device current.
void check_launch(int device);

}  // namespace fakegpu
