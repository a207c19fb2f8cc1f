#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

#include "memory.h"
#include "random.h"
#include "settings.h"
#include "tensors.h"

// What Python calls: torch.ops.fakegpu.
namespace fakegpu {
namespace {

const void* as_address(std::int64_t number) {
    return reinterpret_cast<const void*>(number);  // NOLINT(performance-no-int-to-ptr)
}

// As cudaHostRegister: 0, or the number of an error.
std::int64_t host_register(std::int64_t address, std::int64_t nbytes, std::int64_t flags) {
    constexpr std::int64_t kInvalidValue = 1, kAlreadyRegistered = 712, kNotSupported = 801, kReadOnlyFlag = 8;
    if ((flags & kReadOnlyFlag) != 0) return kNotSupported;  // as devices without that attribute
    open_device();
    switch (page_lock(as_address(address), static_cast<std::size_t>(nbytes))) {
        case Registered::kDone: return 0;
        case Registered::kTwice: return kAlreadyRegistered;
        case Registered::kReadOnly: break;
    }
    return kInvalidValue;
}

void host_unregister(std::int64_t address) { page_unlock(as_address(address)); }

void map_memory(const at::Tensor& tensor) { memory(tensor.device().index()).map(tensor.data_ptr()); }

std::int64_t context() { return current_context(); }

void set_context(std::int64_t device) { set_current_context(static_cast<int>(device)); }

void configure_number(c10::string_view name, std::int64_t value) { configure(std::string(name), value); }

void make_stream_late(std::int64_t device, std::int64_t id) { make_late(&stream(static_cast<int>(device), id)); }

void make_none_late() { make_late(nullptr); }

std::vector<std::int64_t> thread_waits() {
    std::vector<std::int64_t> pairs;
    for (const auto& [thread, waits] : waits_by_thread()) pairs.insert(pairs.end(), {thread, waits});
    return pairs;
}

// Seed and offset of a device's generator.
std::vector<std::int64_t> generator_state(std::int64_t device) {
    const at::Generator& generator = default_generator(static_cast<int>(device));
    return {static_cast<std::int64_t>(generator.current_seed()), static_cast<std::int64_t>(generator.get_offset())};
}

void set_generator_state(std::int64_t device, std::int64_t seed, std::int64_t offset) {
    at::Generator generator = default_generator(static_cast<int>(device));
    generator.set_current_seed(static_cast<std::uint64_t>(seed));
    generator.set_offset(static_cast<std::uint64_t>(offset));
}

// Descriptor, offset and bytes of a tensor's memory, for another process.
std::vector<std::int64_t> export_memory(const at::Tensor& tensor) {
    const DeviceMemory& its = memory(tensor.device().index());
    return {its.descriptor(), static_cast<std::int64_t>(its.offset(tensor.const_data_ptr())),
            static_cast<std::int64_t>(tensor.nbytes())};
}

at::Tensor import_memory(std::int64_t fd, std::int64_t offset, std::int64_t nbytes, std::int64_t device) {
    char* address =
        memory(static_cast<int>(device))
            .import(static_cast<int>(fd), static_cast<std::size_t>(offset), static_cast<std::size_t>(nbytes));
    const c10::Device where(kType, static_cast<c10::DeviceIndex>(device));
    c10::Storage storage(c10::Storage::use_byte_size_t{}, nbytes, c10::DataPtr(address, where), nullptr, false);
    auto tensor =
        at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                 caffe2::TypeMeta::fromScalarType(at::kByte));
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous({nbytes});
    return tensor;
}

}  // namespace

TORCH_LIBRARY(fakegpu, m) {
    m.def("configure(str name, int value) -> ()", configure_number);
    m.def("make_late(int device, int stream) -> ()", make_stream_late);
    m.def("make_none_late() -> ()", make_none_late);
    m.def("mend() -> ()", mend);
    m.def("counters() -> int[]", counted);
    m.def("waits_by_thread() -> int[]", thread_waits);
    m.def("host_register(int address, int nbytes, int flags) -> int", host_register);
    m.def("host_unregister(int address) -> ()", host_unregister);
    m.def("generator_state(int device) -> int[]", generator_state);
    m.def("set_generator_state(int device, int seed, int offset) -> ()", set_generator_state);
    m.def("context() -> int", context);
    m.def("set_context(int device) -> ()", set_context);
    m.def("map_memory(Tensor tensor) -> ()");
    m.def("export_memory(Tensor tensor) -> int[]");
    m.def("import_memory(int fd, int offset, int nbytes, int device) -> Tensor", import_memory);
}

TORCH_LIBRARY_IMPL(fakegpu, PrivateUse1, m) {
    m.impl("map_memory", map_memory);
    m.impl("export_memory", export_memory);
}

}  // namespace fakegpu
