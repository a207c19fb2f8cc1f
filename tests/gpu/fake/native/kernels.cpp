#include <torch/library.h>

#include <cstring>

#include "memory.h"
#include "settings.h"
#include "tensors.h"

// Launches of kernels that were compiled for the host (tests/pool/kernels/cuda/shim.h), in the order of a stream.
namespace fakegpu {
namespace {

using Launch = int (*)(const char* name, const unsigned* blocks, const unsigned* threads, void** arguments,
                       const unsigned* sizes, unsigned count, int backward);

// The arguments, one behind the other, each at a multiple of 8 bytes. An address of a device's memory, wherever it
// stands, becomes the one that kernels know.
std::vector<std::uint64_t> for_kernels(const at::Tensor& arguments) {
    std::vector<std::uint64_t> words(static_cast<std::size_t>(arguments.numel()));
    std::memcpy(words.data(), arguments.const_data_ptr(), words.size() * sizeof(std::uint64_t));
    for (std::uint64_t& word : words) {
        const void* address = reinterpret_cast<const void*>(word);  // NOLINT(performance-no-int-to-ptr)
        if (const DeviceMemory* its = memory_of(address))
            word = reinterpret_cast<std::uint64_t>(its->of_kernels(address));
    }
    return words;
}

// `function`: address of shim.h's `launch`; `places`: blocks, then threads of a block, along x and y; `arguments`:
// int64 on the host; `sizes`: bytes of each.
void launch(std::int64_t device, std::int64_t function, c10::string_view kernel, c10::IntArrayRef places,
            const at::Tensor& arguments, c10::IntArrayRef sizes) {
    if (current_context() != static_cast<int>(device)) {
        throw std::runtime_error("CUDA error: CUDA_ERROR_INVALID_CONTEXT (cuLaunchKernel)");
    }
    check_launch(static_cast<int>(device));
    count(kKernels);
    const auto run = reinterpret_cast<Launch>(function);  // NOLINT(performance-no-int-to-ptr)
    const std::vector<unsigned> shape(places.begin(), places.end()), bytes(sizes.begin(), sizes.end());
    current_stream(static_cast<int>(device))
        .put([run, name = std::string(kernel), shape, bytes, words = for_kernels(arguments)]() mutable {
            if (is_due(settings.fail_kernel)) throw std::runtime_error("an illegal memory access was encountered");
            std::vector<void*> pointers;
            std::size_t at = 0;
            for (const unsigned size : bytes) {
                pointers.push_back(&words[at]);
                at += (size + 7) / 8;
            }
            const int status = run(name.c_str(), shape.data(), shape.data() + 2, pointers.data(), bytes.data(),
                                   static_cast<unsigned>(bytes.size()), 0);
            TORCH_CHECK(status == 0, name, ": status ", status);
        });
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(fakegpu, m) {
    m.def("launch(int device, int function, str kernel, int[] places, Tensor arguments, int[] sizes) -> ()", launch);
}

}  // namespace fakegpu
