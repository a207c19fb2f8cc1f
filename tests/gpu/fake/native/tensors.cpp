#include "tensors.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cstring>

#include "allocators.h"
#include "memory.h"
#include "settings.h"

namespace fakegpu {
namespace {

const c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor empty(c10::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                 std::optional<c10::Device> device, std::optional<bool> /*pin*/,
                 std::optional<at::MemoryFormat> format) {
    const c10::DeviceGuard guard(c10::device_or_default(device));
    return at::detail::empty_generic(sizes, &device_allocator(), kKeys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> /*layout*/, std::optional<c10::Device> device,
                         std::optional<bool> /*pin*/) {
    const c10::DeviceGuard guard(c10::device_or_default(device));
    return at::detail::empty_strided_generic(sizes, strides, &device_allocator(), kKeys, c10::dtype_or_default(dtype));
}

const at::Tensor& resize_(const at::Tensor& self, c10::IntArrayRef sizes, std::optional<at::MemoryFormat> /*format*/) {
    return resize(self, sizes);
}

void record_stream(at::Tensor& self, c10::Stream stream) {
    memory(self.device().index()).used_on(self.storage().data_ptr().get_context(), stream.id());
}

at::Scalar local_scalar(const at::Tensor& self) {
    Stream& stream = current_stream(self.device().index());
    const Argument argument(self);
    host_waits_for(stream, stream.newest());
    return argument.tensor().item();
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, std::int64_t offset, c10::IntArrayRef sizes,
                        c10::IntArrayRef strides) {
    auto* impl = self.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(std::move(source));
    impl->set_storage_offset(offset);
    if (strides.empty() && !sizes.empty()) {
        impl->set_sizes_contiguous(sizes);
    } else {
        impl->set_sizes_and_strides(sizes, strides);
    }
    return self;
}

}  // namespace

Argument::Argument(const at::Tensor& tensor) : kind_(Kind::kNone) {
    if (!tensor.defined()) return;
    if (!on_device(tensor)) {
        TORCH_CHECK(tensor.is_cpu() && tensor.dim() == 0,
                    "Expected all tensors to be on the same device, but found one on ", tensor.device());
        kind_ = Kind::kNumber;
        number_ = tensor.clone();
        number_.unsafeGetTensorImpl()->set_wrapped_number(tensor.unsafeGetTensorImpl()->is_wrapped_number());
        return;
    }
    kind_ = Kind::kDevice;
    sizes_ = tensor.sizes().vec();
    strides_ = tensor.strides().vec();
    dtype_ = tensor.scalar_type();
    if (tensor.numel() > 0) address_ = memory(tensor.device().index()).of_kernels(tensor.const_data_ptr());
}

at::Tensor Argument::tensor() const {
    if (kind_ == Kind::kNone) return {};
    if (kind_ == Kind::kNumber) return number_;
    static char nothing;
    return at::from_blob(address_ == nullptr ? &nothing : address_, sizes_, strides_, at::TensorOptions(dtype_));
}

at::Tensor empty_strided_on(int device, c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType dtype) {
    return empty_strided(sizes, strides, dtype, {}, c10::Device(kType, static_cast<c10::DeviceIndex>(device)), {});
}

const at::Tensor& resize(const at::Tensor& tensor, c10::IntArrayRef sizes) {
    const std::size_t need =
        at::detail::computeStorageNbytesContiguous(sizes, tensor.itemsize(), tensor.storage_offset());
    const at::Storage& storage = tensor.storage();
    if (need > storage.nbytes()) {
        const c10::DeviceGuard guard(tensor.device());
        c10::DataPtr larger = device_allocator().allocate(need);
        if (storage.nbytes() > 0) device_allocator().copy_data(larger.get(), storage.data(), storage.nbytes());
        storage.set_data_ptr_noswap(std::move(larger));
        storage.set_nbytes(need);
    }
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
    return tensor;
}

void check_launch(int device) {
    check_device(device);
    if (is_due(settings.fail_launch)) {
        throw std::runtime_error("FAKEGPU error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`");
    }
    set_current_context(current_device());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    m.impl("empty.memory_format", empty);
    m.impl("empty_strided", empty_strided);
    m.impl("as_strided", at::native::as_strided_tensorimpl);
    m.impl("view", at::native::view);
    m.impl("_reshape_alias", at::native::_reshape_alias);
    m.impl("unfold", at::native::unfold);
    m.impl("resize_", resize_);
    m.impl("record_stream", record_stream);
    m.impl("_local_scalar_dense", local_scalar);
    m.impl("set_.source_Storage_storage_offset", set_storage);
}

}  // namespace fakegpu
