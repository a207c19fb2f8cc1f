#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

// Arrays of NumPy that own what C++ has computed, without a copy.
namespace sparsepool::chess {

// The values of a container on the heap, and the capsule that frees them.
template <class Value>
struct OwnedValues {
    Value* data;
    std::size_t size;
    nanobind::capsule owner;
};

template <class Container>
[[nodiscard]] OwnedValues<typename Container::value_type> move_to_heap(Container values) {
    auto container = std::make_unique<Container>(std::move(values));
    auto* const data = container->data();
    const std::size_t size = container->size();
    const nanobind::capsule owner(container.release(),
                                  [](void* pointer) noexcept { delete static_cast<Container*>(pointer); });
    return {data, size, owner};
}

template <class Number>
using NewArray = nanobind::ndarray<nanobind::numpy, Number, nanobind::ndim<1>, nanobind::c_contig>;

// Returns the values of a container as an array of one dimension. Numbers may have another type of the same size.
template <class Number, class Container>
[[nodiscard]] NewArray<Number> to_array(Container values) {
    static_assert(sizeof(Number) == sizeof(typename Container::value_type));
    const auto owned = move_to_heap(std::move(values));
    return NewArray<Number>(reinterpret_cast<Number*>(owned.data), {owned.size}, owned.owner);
}

template <class Item>
using NewItemBytes =
    nanobind::ndarray<nanobind::numpy, std::uint8_t, nanobind::shape<-1, sizeof(Item)>, nanobind::c_contig>;

// Returns the bytes of items, uint8 [items, sizeof(Item)].
template <class Container>
[[nodiscard]] auto to_item_bytes(Container items) {
    using Item = typename Container::value_type;
    const auto owned = move_to_heap(std::move(items));
    return NewItemBytes<Item>(reinterpret_cast<std::uint8_t*>(owned.data), {owned.size, sizeof(Item)}, owned.owner);
}

}  // namespace sparsepool::chess
