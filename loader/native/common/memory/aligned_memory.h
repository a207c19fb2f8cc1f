#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace sparsepool {

struct FreeAligned {
    void operator()(void* memory) const { std::free(memory); }
};

template <class Item>
using AlignedMemory = std::unique_ptr<Item[], FreeAligned>;

// Allocates `count` items of a plain type in full cache lines, without initializing them; large memory in huge pages
// where the system allows it. Throws std::bad_alloc.
template <class Item>
[[nodiscard]] AlignedMemory<Item> allocate_aligned(std::size_t count) {
    constexpr std::size_t kLine = 64;
    constexpr std::size_t kHugePage = std::size_t{2} << 20;
    const std::size_t size = count * sizeof(Item);
    const std::size_t alignment = size < kHugePage / 2 ? kLine : kHugePage;
    const std::size_t bytes = (size + alignment - 1) / alignment * alignment;
    AlignedMemory<Item> memory(static_cast<Item*>(std::aligned_alloc(alignment, bytes)));
    if (!memory) throw std::bad_alloc();
    if (alignment == kHugePage) ::madvise(memory.get(), bytes, MADV_HUGEPAGE);  // advice: it may fail
    return memory;
}

}  // namespace sparsepool
