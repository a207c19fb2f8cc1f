#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "bind/bind.h"
#include "common/check.h"

// Launches CUDA kernels: converts values of Python to the arguments that NVIDIA's driver reads. No header of CUDA is
// needed: the two functions of the driver are called by their addresses.
namespace nb = nanobind;
namespace sparsepool {
namespace {

constexpr std::size_t kMaxArguments = 32;
constexpr std::uint64_t kMaxBlocks[] = {(1ULL << 31) - 1, 65'535};  // of a grid, along x and y
constexpr int kInvalidContext = 201;                                // CUDA_ERROR_INVALID_CONTEXT

struct Grid {
    std::pair<unsigned, unsigned> blocks, threads;
};

// A grid with a thread for each group of each item. In a block groups lie along x and items along y; in the grid blocks
// of items lie along x, where there may be more, and blocks of groups along y.
Grid make_grid(std::uint64_t items, std::uint64_t groups, std::uint64_t max_threads) {
    require(groups >= 1 && max_threads >= 1, "a grid of ", groups, " groups, and blocks of ", max_threads, " threads");
    const std::uint64_t block_groups = std::min(max_threads, std::bit_ceil(groups));
    const std::uint64_t block_items = max_threads / block_groups;
    const std::uint64_t x = (items + block_items - 1) / block_items;
    const std::uint64_t y = (groups + block_groups - 1) / block_groups;
    require(x <= kMaxBlocks[0] && y <= kMaxBlocks[1], items, " items of ", groups, " groups take ", x, " x ", y,
            " blocks of ", max_threads, " threads; a grid has ", kMaxBlocks[0], " x ", kMaxBlocks[1]);
    return {{unsigned(x), unsigned(y)}, {unsigned(block_groups), unsigned(block_items)}};
}

nb::object checked(PyObject* result) {
    if (result == nullptr) throw nb::python_error();
    return nb::steal(result);
}

std::uint64_t to_integer(nb::handle value, std::uint64_t max) {
    const nb::object index = checked(PyNumber_Index(value.ptr()));
    const std::uint64_t integer = PyLong_AsUnsignedLongLong(index.ptr());
    if (PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        refuse(nb::str(value).c_str(), " is not in 0 .. ", max);
    }
    require(integer <= max, integer, " is not in 0 .. ", max);
    return integer;
}

float to_float(nb::handle value) {
    const double number = PyFloat_AsDouble(value.ptr());
    if (number == -1.0 && PyErr_Occurred() != nullptr) throw nb::python_error();
    const auto rounded = static_cast<float>(number);
    require(std::isfinite(rounded) || !std::isfinite(number), number, " is no float32");
    return rounded;
}

// The address of a contiguous tensor's memory; an integer is an address itself, None is 0.
std::uint64_t to_address(nb::handle value) {
    static PyObject* const is_contiguous = PyUnicode_InternFromString("is_contiguous");
    static PyObject* const data_ptr = PyUnicode_InternFromString("data_ptr");
    if (value.is_none()) return 0;
    if (PyLong_Check(value.ptr())) return to_integer(value, UINT64_MAX);
    const nb::object contiguous = checked(PyObject_CallMethodNoArgs(value.ptr(), is_contiguous));
    require(contiguous.ptr() == Py_True, "a tensor is not contiguous");
    return to_integer(checked(PyObject_CallMethodNoArgs(value.ptr(), data_ptr)), UINT64_MAX);
}

std::size_t size_of(char code) {
    require(code == 'P' || code == 'Q' || code == 'I' || code == 'f', "no code of a number: ", code);
    return code == 'P' || code == 'Q' ? 8 : 4;
}

// Writes a value as the code says: P address, Q uint64, I uint32, f float32; little-endian.
void write(char code, nb::handle value, char* to) {
    if (code == 'f') {
        const float number = to_float(value);
        std::memcpy(to, &number, sizeof number);
        return;
    }
    const std::uint64_t max = code == 'I' ? UINT32_MAX : UINT64_MAX;
    const std::uint64_t integer = code == 'P' ? to_address(value) : to_integer(value, max);
    std::memcpy(to, &integer, size_of(code));
}

std::size_t align(std::size_t offset, std::size_t alignment) {
    return (offset + alignment - 1) / alignment * alignment;
}

// Lays out arrays as the members of a C++ structure: each aligned, and the size a multiple of the largest alignment.
nb::bytes structure(const nb::kwargs& members) {
    std::vector<std::pair<char, nb::object>> arrays;  // code, values
    std::size_t size = 0;
    std::size_t max_width = 1;
    for (const auto& [name, member] : members) {
        const nb::tuple pair = nb::cast<nb::tuple>(member);
        const char code = *nb::cast<const char*>(pair[0]);
        const nb::object values = checked(PySequence_Fast(nb::handle(pair[1]).ptr(), "values are a sequence"));
        const auto count = std::size_t(PySequence_Fast_GET_SIZE(values.ptr()));
        arrays.emplace_back(code, values);
        const std::size_t width = size_of(code);
        max_width = std::max(max_width, width);
        size = align(size, width) + width * count;
    }
    size = align(size, max_width);
    const nb::object out = checked(PyBytes_FromStringAndSize(nullptr, Py_ssize_t(size)));
    char* const begin = PyBytes_AS_STRING(out.ptr());
    std::memset(begin, 0, size);
    std::size_t offset = 0;
    for (const auto& [code, values] : arrays) {
        const std::size_t width = size_of(code);
        offset = align(offset, width);
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(values.ptr()); ++i) {
            write(code, PySequence_Fast_GET_ITEM(values.ptr(), i), begin + offset);
            offset += width;
        }
    }
    return nb::borrow<nb::bytes>(out);
}

// The arguments of one launch. Structures are not copied: the caller keeps the Python objects until the launch.
class Arguments {
  public:
    Arguments(const std::string& parameters, nb::handle arguments)
        : values_(checked(PySequence_Fast(arguments.ptr(), "arguments are a sequence"))) {
        count_ = std::size_t(PySequence_Fast_GET_SIZE(values_.ptr()));
        require(count_ == parameters.size(), count_, " arguments for ", parameters.size(), " parameters");
        require(count_ <= kMaxArguments, count_, " arguments; there may be ", kMaxArguments);
        for (std::size_t i = 0; i < count_; ++i) {
            const nb::handle value = PySequence_Fast_GET_ITEM(values_.ptr(), Py_ssize_t(i));
            if (parameters[i] == 's') {
                require(PyBytes_Check(value.ptr()), "argument ", i, " is no structure");
                pointers_[i] = PyBytes_AS_STRING(value.ptr());
                sizes_[i] = std::size_t(PyBytes_GET_SIZE(value.ptr()));
            } else {
                write(parameters[i], value, words_[i].data());
                pointers_[i] = words_[i].data();
                sizes_[i] = size_of(parameters[i]);
            }
        }
    }

    void** pointers() { return pointers_.data(); }

    // The bytes of all arguments, each beginning at a multiple of 8, and their sizes.
    std::pair<nb::bytes, std::vector<std::size_t>> packed() const {
        std::string bytes;
        for (std::size_t i = 0; i < count_; ++i) {
            bytes.append(static_cast<const char*>(pointers_[i]), sizes_[i]);
            bytes.resize(align(bytes.size(), 8));
        }
        return {nb::bytes(bytes.data(), bytes.size()), {sizes_.begin(), sizes_.begin() + std::ptrdiff_t(count_)}};
    }

  private:
    nb::object values_;
    std::size_t count_ = 0;
    std::array<std::array<char, 8>, kMaxArguments> words_{};
    std::array<void*, kMaxArguments> pointers_{};
    std::array<std::size_t, kMaxArguments> sizes_{};
};

// A kernel that is loaded in a context.
class CudaKernel {
  public:
    using GetCurrent = int (*)(void**);
    using Launch = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                           void**);

    CudaKernel(std::pair<std::uintptr_t, std::uintptr_t> driver, std::uintptr_t context, std::uintptr_t function,
               std::string parameters, unsigned threads)
        : get_current_(reinterpret_cast<GetCurrent>(driver.first)),
          launch_(reinterpret_cast<Launch>(driver.second)),
          context_(reinterpret_cast<void*>(context)),
          function_(reinterpret_cast<void*>(function)),
          parameters_(std::move(parameters)),
          threads_(threads) {}

    int launch(std::uintptr_t stream, std::pair<std::uint64_t, std::uint64_t> extent, const nb::object& values) const {
        const Grid grid = make_grid(extent.first, extent.second, threads_);
        Arguments arguments(parameters_, values);
        const nb::gil_scoped_release release;  // the driver waits if its queue is full
        void* current_context = nullptr;
        const int status = get_current_(&current_context);
        if (status != 0) return status;
        if (current_context != context_) return kInvalidContext;
        return launch_(function_, grid.blocks.first, grid.blocks.second, 1, grid.threads.first, grid.threads.second, 1,
                       0, reinterpret_cast<void*>(stream), arguments.pointers(), nullptr);
    }

  private:
    GetCurrent get_current_;
    Launch launch_;
    void* context_;
    void* function_;
    std::string parameters_;
    unsigned threads_;
};

}  // namespace

void bind_launch(nb::module_& module) {
    module.def(
        "grid",
        [](std::pair<std::uint64_t, std::uint64_t> extent, std::uint64_t most) {
            const Grid grid = make_grid(extent.first, extent.second, most);
            return std::pair(grid.blocks, grid.threads);
        },
        nb::arg("extent"), nb::arg("most"),
        R"(Blocks along x and y, and threads of a block, at most so many: along x groups, along y items. `extent`: items,
and the groups of each, with a thread for each group. ValueError for more blocks than a grid has: what there may be
millions of are the items.)");
    module.def(
        "structure", &structure, nb::arg("members"),
        nb::sig("def structure(**members: tuple[str, collections.abc.Iterable[typing.Any]]) -> bytes"),
        R"(A structure that a kernel takes by value, laid out as in its source: arrays by name, each of a code of struct
(P, Q, I, f) and with its values; pointers are tensors, addresses, or None. ValueError for what the code does not hold,
and for a tensor that is not contiguous.)");
    module.def(
        "pack_arguments",
        [](const std::string& parameters, const nb::object& arguments) {
            return Arguments(parameters, arguments).packed();
        },
        nb::arg("parameters"), nb::arg("arguments"),
        nb::sig("def pack_arguments(parameters: str, arguments: collections.abc.Sequence[typing.Any]) -> tuple[bytes, "
                "list[int]]"),
        R"(A kernel's arguments as bytes, each from a multiple of 8 on, and their sizes. `parameters`: a code for each, as
in `structure`, or `s` for bytes. ValueError as there, and for another number of arguments.)");
    nb::class_<CudaKernel>(module, "CudaKernel", "A kernel that is loaded in a context of NVIDIA's driver.")
        .def(nb::init<std::pair<std::uintptr_t, std::uintptr_t>, std::uintptr_t, std::uintptr_t, std::string,
                      unsigned>(),
             nb::arg("driver"), nb::arg("context"), nb::arg("function"), nb::arg("parameters"), nb::arg("threads"),
             R"(`driver`: the addresses of cuCtxGetCurrent and cuLaunchKernel; `context` and `function`: handles;
`parameters`: as `pack_arguments` has them; `threads`: of a block, at most.)")
        .def("launch", &CudaKernel::launch, nb::arg("stream"), nb::arg("extent"), nb::arg("arguments"),
             nb::sig("def launch(self, stream: int, extent: tuple[int, int], arguments: "
                     "collections.abc.Sequence[typing.Any]) -> int"),
             R"(Queues it and returns the driver's status; CUDA_ERROR_INVALID_CONTEXT, with nothing queued, if another
context is the thread's. `extent`: as in `grid`. ValueError as `grid` and `pack_arguments`.)");
}

}  // namespace sparsepool
