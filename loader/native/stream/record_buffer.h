#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "chess/record.h"

namespace sparsepool::stream {

// Records in memory that is never filled with zeros first: windows are hundreds of megabytes. Keeps its
// memory when cleared. Throws std::bad_alloc.
class RecordBuffer {
  public:
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] chess::Record* data() { return memory_.get(); }
    [[nodiscard]] const chess::Record* data() const { return memory_.get(); }
    [[nodiscard]] std::span<const chess::Record> records() const { return {memory_.get(), size_}; }

    // Room for `count` more at the end; call `grow` with how many were written.
    [[nodiscard]] chess::Record* room(std::size_t count) {
        if (size_ + count > capacity_) reserve(std::max(size_ + count, capacity_ + capacity_ / 2));
        return memory_.get() + size_;
    }
    void grow(std::size_t count) { size_ += count; }
    void shrink(std::size_t size) { size_ = size; }
    void clear() { size_ = 0; }

    void append(std::span<const chess::Record> records) {
        if (records.empty()) return;
        std::memcpy(room(records.size()), records.data(), records.size_bytes());
        grow(records.size());
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
    static constexpr std::size_t kLine = 64;
    static constexpr std::size_t kHugePage = 2 << 20;

    struct Free {
        void operator()(chess::Record* memory) const { std::free(memory); }
    };

    void reserve(std::size_t capacity) {
        // Shuffling writes to as many places of a window as it has batches: with small pages, each write would look
        // its page up as well.
        const std::size_t wanted = capacity * sizeof(chess::Record);
        const std::size_t alignment = wanted < kHugePage ? kLine : kHugePage;
        const std::size_t bytes = (wanted + alignment - 1) / alignment * alignment;
        std::unique_ptr<chess::Record, Free> memory(static_cast<chess::Record*>(std::aligned_alloc(alignment, bytes)));
        if (!memory) throw std::bad_alloc();
        if (alignment == kHugePage) ::madvise(memory.get(), bytes, MADV_HUGEPAGE);  // a wish: it may be refused
        if (size_ != 0) std::memcpy(memory.get(), memory_.get(), size_ * sizeof(chess::Record));
        memory_ = std::move(memory);
        capacity_ = capacity;
    }

    std::unique_ptr<chess::Record, Free> memory_;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

}  // namespace sparsepool::stream
