#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "common/memory/aligned_memory.h"

namespace sparsepool {

// Items of a plain type in memory that is never filled with zeros first: windows are hundreds of megabytes. Keeps its
// memory when cleared. Throws std::bad_alloc.
template <class Item>
class GrowingMemory {
    static_assert(std::is_trivially_copyable_v<Item>);

  public:
    GrowingMemory() = default;
    GrowingMemory(GrowingMemory&& other) noexcept { *this = std::move(other); }
    GrowingMemory& operator=(GrowingMemory&& other) noexcept {  // what was moved from is empty, and may be used again
        memory_ = std::move(other.memory_);
        size_ = std::exchange(other.size_, 0);
        capacity_ = std::exchange(other.capacity_, 0);
        return *this;
    }

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] Item* data() { return memory_.get(); }
    [[nodiscard]] const Item* data() const { return memory_.get(); }

    // Room for `count` more at the end; call `grow` with how many were written.
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

    // Makes the size `size`; what is new is not initialized, and what was there may be lost.
    void resize_to_overwrite(std::size_t size) {
        if (size > capacity_) {
            size_ = 0;
            memory_.reset();  // first, so that both are never there at once
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
