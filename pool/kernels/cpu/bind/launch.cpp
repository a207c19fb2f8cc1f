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

// The launch of a CUDA kernel: values of Python become what NVIDIA's driver reads. No header of CUDA is needed: two
// functions of the driver are called, at addresses that it gives.
namespace nb = nanobind;
namespace sparsepool {
namespace {

constexpr std::size_t kMostArguments = 32;
constexpr std::uint64_t kMostBlocks[] = {(1ULL << 31) - 1, 65'535};  // of a grid, along x and y
constexpr int kInvalidContext = 201;                                 // CUDA_ERROR_INVALID_CONTEXT

struct Grid {
    std::pair<unsigned, unsigned> blocks, threads;
};

// For each item a thread for each group: along x groups, along y items.
Grid grid_of(std::uint64_t items, std::uint64_t groups, std::uint64_t most) {
    require(groups >= 1 && most >= 1, "a grid of ", groups, " groups, and blocks of ", most, " threads");
    const std::uint64_t across = std::min(most, std::bit_ceil(groups)), down = most / across;
    const std::uint64_t x = (items + down - 1) / down, y = (groups + across - 1) / across;
    require(x <= kMostBlocks[0] && y <= kMostBlocks[1], items, " items of ", groups, " groups take ", x, " x ", y,
            " blocks of ", most, " threads; a grid has ", kMostBlocks[0], " x ", kMostBlocks[1]);
    return {{unsigned(x), unsigned(y)}, {unsigned(across), unsigned(down)}};
}

nb::object checked(PyObject* result) {
    if (result == nullptr) throw nb::python_error();
    return nb::steal(result);
}

std::uint64_t integer(nb::handle value, std::uint64_t largest) {
    const nb::object number = checked(PyNumber_Index(value.ptr()));
    const std::uint64_t found = PyLong_AsUnsignedLongLong(number.ptr());
    if (PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        refuse(nb::str(value).c_str(), " is not in 0 .. ", largest);
    }
    require(found <= largest, found, " is not in 0 .. ", largest);
    return found;
}

float number(nb::handle value) {
    const double found = PyFloat_AsDouble(value.ptr());
    if (found == -1.0 && PyErr_Occurred() != nullptr) throw nb::python_error();
    const auto rounded = static_cast<float>(found);
    require(std::isfinite(rounded) || !std::isfinite(found), found, " is no float32");
    return rounded;
}

// Of a tensor, which is contiguous; or a number; None is no address.
std::uint64_t address(nb::handle value) {
    static PyObject* const is_contiguous = PyUnicode_InternFromString("is_contiguous");
    static PyObject* const data_ptr = PyUnicode_InternFromString("data_ptr");
    if (value.is_none()) return 0;
    if (PyLong_Check(value.ptr())) return integer(value, UINT64_MAX);
    const nb::object contiguous = checked(PyObject_CallMethodNoArgs(value.ptr(), is_contiguous));
    require(contiguous.ptr() == Py_True, "a tensor is not contiguous");
    return integer(checked(PyObject_CallMethodNoArgs(value.ptr(), data_ptr)), UINT64_MAX);
}

std::size_t size_of(char code) {
    require(code == 'P' || code == 'Q' || code == 'I' || code == 'f', "no code of a number: ", code);
    return code == 'P' || code == 'Q' ? 8 : 4;
}

void write(char code, nb::handle value, char* to) {
    if (code == 'f') {
        const float found = number(value);
        std::memcpy(to, &found, sizeof found);
    } else {
        const std::uint64_t found =
            code == 'P' ? address(value) : integer(value, code == 'I' ? UINT32_MAX : UINT64_MAX);
        std::memcpy(to, &found, size_of(code));  // little-endian
    }
}

// Arrays, each aligned as C++ does it, in a size that is a multiple of the widest type's.
nb::bytes structure(const nb::kwargs& members) {
    std::vector<std::pair<char, nb::object>> arrays;
    std::size_t size = 0, widest = 1;
    for (const auto& [name, member] : members) {
        const nb::tuple pair = nb::cast<nb::tuple>(member);
        const char code = *nb::cast<const char*>(pair[0]);
        arrays.emplace_back(code, checked(PySequence_Fast(nb::handle(pair[1]).ptr(), "values are a sequence")));
        const std::size_t width = size_of(code);
        widest = std::max(widest, width);
        size = (size + width - 1) / width * width +
               width * std::size_t(PySequence_Fast_GET_SIZE(arrays.back().second.ptr()));
    }
    size = (size + widest - 1) / widest * widest;
    const nb::object out = checked(PyBytes_FromStringAndSize(nullptr, Py_ssize_t(size)));
    char* const begin = PyBytes_AS_STRING(out.ptr());
    std::memset(begin, 0, size);
    std::size_t at = 0;
    for (const auto& [code, values] : arrays) {
        const std::size_t width = size_of(code);
        at = (at + width - 1) / width * width;
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(values.ptr()); ++i, at += width) {
            write(code, PySequence_Fast_GET_ITEM(values.ptr(), i), begin + at);
        }
    }
    return nb::borrow<nb::bytes>(out);
}

// The arguments of one launch. Structures stay where Python has them: who gives them keeps them until the end.
class Arguments {
  public:
    Arguments(const std::string& parameters, nb::handle given)
        : values_(checked(PySequence_Fast(given.ptr(), "arguments are a sequence"))) {
        count_ = std::size_t(PySequence_Fast_GET_SIZE(values_.ptr()));
        require(count_ == parameters.size(), count_, " arguments for ", parameters.size(), " parameters");
        require(count_ <= kMostArguments, count_, " arguments; there may be ", kMostArguments);
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

    // Each from a multiple of 8 bytes on; and their sizes.
    std::pair<nb::bytes, std::vector<std::size_t>> packed() const {
        std::string words;
        for (std::size_t i = 0; i < count_; ++i) {
            words.append(static_cast<const char*>(pointers_[i]), sizes_[i]);
            words.resize((words.size() + 7) / 8 * 8);
        }
        return {nb::bytes(words.data(), words.size()), {sizes_.begin(), sizes_.begin() + std::ptrdiff_t(count_)}};
    }

  private:
    nb::object values_;
    std::size_t count_ = 0;
    std::array<std::array<char, 8>, kMostArguments> words_{};
    std::array<void*, kMostArguments> pointers_{};
    std::array<std::size_t, kMostArguments> sizes_{};
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

    int launch(std::uintptr_t stream, std::pair<std::uint64_t, std::uint64_t> extent, const nb::object& given) const {
        const Grid grid = grid_of(extent.first, extent.second, threads_);
        Arguments arguments(parameters_, given);
        const nb::gil_scoped_release release;  // the driver waits where too much is queued
        void* current = nullptr;
        if (const int status = get_current_(&current)) return status;
        if (current != context_) return kInvalidContext;
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
            const Grid found = grid_of(extent.first, extent.second, most);
            return std::pair(found.blocks, found.threads);
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
