#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "common/memory/aligned_memory.h"

namespace sparsepool {

// A vector of items of a plain type that never initializes memory: windows are hundreds of megabytes. Keeps its memory
// when cleared. Throws std::bad_alloc.
template <class Item>
class GrowingMemory {
    static_assert(std::is_trivially_copyable_v<Item>);

  public:
    GrowingMemory() = default;
    GrowingMemory(GrowingMemory&& other) noexcept { *this = std::move(other); }
    GrowingMemory& operator=(GrowingMemory&& other) noexcept {  // `other` is empty then and may be used again
        memory_ = std::move(other.memory_);
        size_ = std::exchange(other.size_, 0);
        capacity_ = std::exchange(other.capacity_, 0);
        return *this;
    }

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] Item* data() { return memory_.get(); }
    [[nodiscard]] const Item* data() const { return memory_.get(); }

    // Room for `count` more items at the end. Call `grow` with how many were written to it.
    [[nodiscard]] Item* room(std::size_t count) {
        if (size_ + count > capacity_) reserve(std::max(size_ + count, capacity_ + capacity_ / 2));
        return memory_.get() + size_;
    }
    void grow(std::size_t count) { size_ += count; }
    void shrink(std::size_t size) { size_ = size; }
    void clear() { size_ = 0; }

    void append(std::span<const Item> items) {
        if (items.empty()) return;
        std::memcpy(room(items.size()), items.data(), items.size_bytes());
        grow(items.size());
    }

    // Resizes without initializing; old items may be lost.
    void resize_to_overwrite(std::size_t size) {
        if (size > capacity_) {
            size_ = 0;
            memory_.reset();  // first, so that old and new memory never exist at once
            capacity_ = 0;
            reserve(size);
        }
        size_ = size;
    }

  private:
    void reserve(std::size_t capacity) {
        AlignedMemory<Item> memory = allocate_aligned<Item>(capacity);
        if (size_ != 0) std::memcpy(memory.get(), memory_.get(), size_ * sizeof(Item));
        memory_ = std::move(memory);
        capacity_ = capacity;
    }

    AlignedMemory<Item> memory_;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

}  // namespace sparsepool
