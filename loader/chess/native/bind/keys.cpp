#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "chess/native/bind/arrays.h"
#include "chess/native/bind/bind.h"
#include "chess/native/formats/position_key.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool::chess {
namespace {

constexpr std::size_t kWords = sizeof(PositionKey) / sizeof(std::uint64_t);

using Keys = nb::ndarray<const std::uint64_t, nb::shape<-1, kWords>, nb::c_contig, nb::device::cpu>;
using NewKeys = nb::ndarray<nb::numpy, std::uint64_t, nb::shape<-1, kWords>, nb::c_contig>;

std::span<const PositionKey> span(const Keys& keys) {
    return {reinterpret_cast<const PositionKey*>(keys.data()), keys.shape(0)};
}

NewKeys take_keys(KeyWriter& writer) {
    const auto owned = move_to_heap(writer.take_keys());
    return NewKeys(reinterpret_cast<std::uint64_t*>(owned.data), {owned.size, kWords}, owned.owner);
}

// Returns function(keys), a vector, as an array.
template <class Number, class Function>
NewArray<Number> apply_to_keys(const Keys& keys, Function function) {
    std::vector<Number> values;
    {
        const nb::gil_scoped_release release;
        values = function(span(keys));
    }
    return to_array<Number>(std::move(values));
}

std::vector<std::uint64_t> hash_keys(std::span<const PositionKey> keys) {
    std::vector<std::uint64_t> values;
    values.reserve(keys.size());
    for (const PositionKey& key : keys) values.push_back(hash_of(key));
    return values;
}

}  // namespace

void bind_keys(nb::module_& module) {
    nb::class_<KeyWriter, EntryWriter>(module, "KeyWriter", "Takes the keys of entries' positions.")
        .def(nb::init<>())
        .def("take_keys", &take_keys,
             "Those since the last call, uint64 [entries, 4]: the same if and only if the positions are, but for the\n"
             "last word's bits from 24 on, which are 0 and free.");
    module.def(
        "hash_keys", [](const Keys& keys) { return apply_to_keys<std::uint64_t>(keys, hash_keys); }, "keys"_a,
        "Of each, uint64; free bits do not count.");
    module.def(
        "first_of_keys", [](const Keys& keys) { return apply_to_keys<std::uint8_t>(keys, first_of_keys); }, "keys"_a,
        "1 for each that none before is the same as, else 0; uint8. Fewer than 2^32.");
}

}  // namespace sparsepool::chess
