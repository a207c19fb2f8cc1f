#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "streams.h"

// Memory of a device, at two addresses: the one that the host knows can't be touched (PROT_NONE), the other is the
// kernels'. Free of torch.
namespace fakegpu {

class OutOfMemory : public std::bad_alloc {
  public:
    explicit OutOfMemory(std::string text) : text_(std::move(text)) {}
    const char* what() const noexcept override { return text_.c_str(); }

  private:
    std::string text_;
};

// As CUDA's caching allocator: what is freed may be given out again at once on its own stream, since whatever that
// stream has still to do with it comes before; other streams must have been told of by `used_on`. New memory, and
// what is freed, is filled with 0xFF (as floats: NaN) in the order of the stream.
class DeviceMemory {
  public:
    explicit DeviceMemory(int device);

    bool has(const void* address) const;
    char* of_kernels(const void* address) const;  // the same memory where kernels see it
    char* allocate(std::size_t nbytes);           // of the current stream. Throws OutOfMemory
    void free(void* address);
    void used_on(void* address, std::int64_t stream);

    int descriptor() const { return fd_; }
    std::size_t offset(const void* address) const;
    // Memory of another process at an address here; `offset` and `nbytes` in its descriptor. Never freed.
    char* import(int fd, std::size_t offset, std::size_t nbytes);
    // As memory that the driver maps for this device alone; so is what is imported.
    void map(void* address);
    bool is_mapped(const void* address) const;

  private:
    struct Block {
        char* address;
        std::size_t nbytes;
        std::int64_t stream;
        std::vector<std::int64_t> others;  // streams that use it too
        bool is_mapped = false;
    };
    using Key = std::pair<std::int64_t, std::size_t>;                // stream, bytes
    using Tickets = std::vector<std::pair<Stream*, std::uint64_t>>;  // when it is no more used elsewhere

    void poison(const Block& block);
    void collect();

    int device_, fd_ = -1;
    char *of_host_ = nullptr, *of_kernels_ = nullptr;
    std::size_t top_ = 0;
    mutable std::mutex mutex_;
    std::map<const void*, Block> live_;
    std::map<const void*, std::size_t> imported_;  // bytes
    std::multimap<Key, char*> free_;
    std::vector<std::pair<Block, Tickets>> waiting_;
};

DeviceMemory& memory(int device);
DeviceMemory* memory_of(const void* address);  // nullptr if it is no device's

// Page-locked memory of the host.
enum class Registered { kDone, kReadOnly, kTwice };
Registered page_lock(const void* address, std::size_t nbytes);  // refuses what the host may not write
bool page_unlock(const void* address);
bool is_page_locked(const void* address, std::size_t nbytes = 1);

}  // namespace fakegpu
