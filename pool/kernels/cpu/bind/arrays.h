#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "base/matrix.h"
#include "base/numbers.h"
#include "common/check.h"

// From torch tensors and numpy arrays on the CPU to views, without a copy; what does not fit is a ValueError
// that names the argument. The types below are unconstrained, so that nanobind never converts behind our back.
namespace sparsepool {

// Read only, and written to. Types of their own for the sake of the stubs: torch tensors are no numpy arrays.
struct Array : nanobind::ndarray<nanobind::ro, nanobind::device::cpu> {
    using Base = nanobind::ndarray<nanobind::ro, nanobind::device::cpu>;
};
struct OutArray : nanobind::ndarray<nanobind::device::cpu> {
    using Base = nanobind::ndarray<nanobind::device::cpu>;
};

inline void require_contiguous(const auto& array, const char* name) {
    std::int64_t stride = 1;
    for (std::size_t i = array.ndim(); i-- > 0;) {
        const auto length = static_cast<std::int64_t>(array.shape(i));
        require(array.size() == 0 || length == 1 || array.stride(i) == stride, name, " is not contiguous: dimension ",
                i, " has stride ", array.stride(i), ", not ", stride);
        stride *= length;
    }
}

inline void require_shape(const auto& array, const char* name, std::size_t dimensions) {
    require(array.ndim() == dimensions, name, " has ", array.ndim(), " dimensions, must have ", dimensions);
    require_contiguous(array, name);
}

template <class Float>
MatrixOf<Float> matrix(const auto& array, const char* name) {
    require(array.dtype() == nanobind::dtype<float>(), name, " must be float32");
    require_shape(array, name, 2);
    return {static_cast<Float*>(array.data()), array.shape(0), array.shape(1)};
}

// Exactly `size` floats, of any shape.
template <class Float>
Float* flat_floats(const auto& array, const char* name, std::size_t size) {
    require(array.dtype() == nanobind::dtype<float>(), name, " must be float32");
    require_contiguous(array, name);
    require(array.size() == size, name, " has ", array.size(), " numbers, must have ", size);
    return static_cast<Float*>(array.data());
}

// Exactly `size` floats.
template <class Float>
Float* floats(const auto& array, const char* name, std::size_t size) {
    require(array.dtype() == nanobind::dtype<float>(), name, " must be float32");
    require_shape(array, name, 1);
    require(array.shape(0) == size, name, " has ", array.shape(0), " numbers, must have ", size);
    return static_cast<Float*>(array.data());
}

inline bool is_bfloat16(const auto& array) {
    return array.dtype() == nanobind::dlpack::dtype{std::uint8_t(nanobind::dlpack::dtype_code::Bfloat), 16, 1};
}

inline BFloat16* bfloat16(const auto& array, const char* name, std::size_t dimensions) {
    require(is_bfloat16(array), name, " must be bfloat16");
    require_shape(array, name, dimensions);
    return static_cast<BFloat16*>(array.data());
}

inline Numbers numbers(const Array& array, const char* name) {
    const bool wide = array.dtype() == nanobind::dtype<std::uint32_t>();
    require(wide || array.dtype() == nanobind::dtype<std::uint16_t>(), name, " must be uint16 or uint32");
    require_shape(array, name, 1);
    return {array.data(), array.shape(0), wide};
}

inline Offsets offsets(const Array& array, const char* name) {
    require(array.dtype() == nanobind::dtype<std::uint32_t>(), name, " must be uint32");
    require_shape(array, name, 1);
    return {static_cast<const std::uint32_t*>(array.data()), array.shape(0)};
}

}  // namespace sparsepool

namespace nanobind::detail {

template <class Array>
struct array_caster {
    NB_TYPE_CASTER(Array, const_name("torch.Tensor | numpy.typing.NDArray[typing.Any]"))

    bool from_python(handle source, std::uint8_t flags, cleanup_list* cleanup) noexcept {
        make_caster<typename Array::Base> caster;
        if (!caster.from_python(source, flags, cleanup)) return false;
        static_cast<typename Array::Base&>(value) = caster.operator cast_t<typename Array::Base>();
        return true;
    }
};

template <>
struct type_caster<sparsepool::Array> : array_caster<sparsepool::Array> {};
template <>
struct type_caster<sparsepool::OutArray> : array_caster<sparsepool::OutArray> {};

}  // namespace nanobind::detail
