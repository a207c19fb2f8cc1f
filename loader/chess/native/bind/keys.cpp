#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

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

template <class Container>
std::pair<typename Container::value_type*, nb::capsule> owned(Container values) {
    auto kept = std::make_unique<Container>(std::move(values));
    auto* data = kept->data();
    return {data, nb::capsule(kept.release(), [](void* old) noexcept { delete static_cast<Container*>(old); })};
}

NewKeys take_keys(KeyWriter& writer) {
    std::vector<PositionKey> keys = writer.take_keys();
    const std::size_t count = keys.size();
    auto [data, owner] = owned(std::move(keys));
    return NewKeys(reinterpret_cast<std::uint64_t*>(data), {count, kWords}, owner);
}

template <class Number, class Function>
nb::ndarray<nb::numpy, Number, nb::ndim<1>, nb::c_contig> of_keys(const Keys& keys, Function function) {
    std::vector<Number> values;
    {
        const nb::gil_scoped_release release;
        values = function(span(keys));
    }
    const std::size_t count = values.size();
    auto [data, owner] = owned(std::move(values));
    return nb::ndarray<nb::numpy, Number, nb::ndim<1>, nb::c_contig>(data, {count}, owner);
}

std::vector<std::uint64_t> hashes(std::span<const PositionKey> keys) {
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
        "hash_keys", [](const Keys& keys) { return of_keys<std::uint64_t>(keys, hashes); }, "keys"_a,
        "Of each, uint64; free bits do not count.");
    module.def(
        "first_of_keys", [](const Keys& keys) { return of_keys<std::uint8_t>(keys, first_of_keys); }, "keys"_a,
        "1 for each that none before is the same as, else 0; uint8. Fewer than 2^32.");
}

}  // namespace sparsepool::chess
