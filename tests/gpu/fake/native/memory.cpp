#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "settings.h"

namespace fakegpu {
namespace {

constexpr std::size_t kAddresses = std::size_t{1} << 36;  // of one device
constexpr std::size_t kPage = 4096, kUnit = 512;

std::size_t up_to(std::size_t size, std::size_t unit) { return (size + unit - 1) / unit * unit; }

std::mutex locked_mutex;
std::map<const char*, std::size_t> locked;

}  // namespace

DeviceMemory::DeviceMemory(int device) : device_(device), fd_(memfd_create("fakegpu", MFD_CLOEXEC)) {
    if (fd_ < 0 || ftruncate(fd_, kAddresses) != 0) throw std::runtime_error("FAKEGPU: no memory for a device");
    void* none = mmap(nullptr, kAddresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void* all = mmap(nullptr, kAddresses, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
    if (none == MAP_FAILED || all == MAP_FAILED) throw std::runtime_error("FAKEGPU: no addresses for a device");
    madvise(all, kAddresses, MADV_DONTDUMP);
    of_host_ = static_cast<char*>(none);
    of_kernels_ = static_cast<char*>(all);
}

bool DeviceMemory::has(const void* address) const { return address >= of_host_ && address < of_host_ + kAddresses; }

std::size_t DeviceMemory::offset(const void* address) const { return static_cast<const char*>(address) - of_host_; }

char* DeviceMemory::of_kernels(const void* address) const { return of_kernels_ + offset(address); }

char* DeviceMemory::allocate(std::size_t nbytes) {
    const std::size_t size = up_to(std::max<std::size_t>(nbytes, 1), nbytes > (1U << 16) ? kPage : kUnit);
    const std::int64_t stream = current_stream(device_).id;
    const std::lock_guard lock(mutex_);
    collect();
    char* address = nullptr;
    if (const auto found = free_.find({stream, size}); found != free_.end()) {
        address = found->second;
        free_.erase(found);
    } else {
        if (top_ + size > static_cast<std::size_t>(settings.memory_bytes)) {
            std::ostringstream text;
            text << "FAKEGPU out of memory. Tried to allocate " << nbytes << " bytes on device " << device_
                 << ", which has " << settings.memory_bytes << ", of which " << top_ << " are in use";
            throw OutOfMemory(text.str());
        }
        address = of_host_ + top_;
        top_ += size;
        poison({address, size, stream, {}});
    }
    live_[address] = {address, size, stream, {}};
    count(kAllocatedBytes, static_cast<std::int64_t>(size));
    return address;
}

void DeviceMemory::free(void* address) {
    if (is_forked()) return;
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(address);
    if (found == live_.end()) return;  // imported
    Block block = std::move(found->second);
    live_.erase(found);
    count(kAllocatedBytes, -static_cast<std::int64_t>(block.nbytes));
    Tickets tickets;
    for (const std::int64_t other : block.others) {
        Stream& its = stream(device_, other);
        tickets.emplace_back(&its, its.newest());
    }
    if (tickets.empty()) {
        poison(block);
        free_.emplace(Key{block.stream, block.nbytes}, block.address);
    } else {
        waiting_.emplace_back(std::move(block), std::move(tickets));
    }
}

void DeviceMemory::used_on(void* address, std::int64_t stream) {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(address);
    if (found != live_.end() && found->second.stream != stream) found->second.others.push_back(stream);
}

char* DeviceMemory::import(int fd, std::size_t offset, std::size_t nbytes) {
    const std::lock_guard lock(mutex_);
    top_ = up_to(top_, kPage);
    char* address = of_host_ + top_;
    const std::size_t before = offset % kPage, whole = up_to(before + nbytes, kPage);
    void* at = mmap(of_kernels(address), whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                    static_cast<off_t>(offset - before));
    if (at == MAP_FAILED) throw std::runtime_error("FAKEGPU: the memory of the other process can't be mapped");
    top_ += whole;
    imported_[address] = whole;
    return address + before;
}

void DeviceMemory::map(void* address) {
    const std::lock_guard lock(mutex_);
    live_.at(address).is_mapped = true;
}

bool DeviceMemory::is_mapped(const void* address) const {
    const std::lock_guard lock(mutex_);
    if (const auto after = imported_.upper_bound(address); after != imported_.begin()) {
        const auto& [begin, nbytes] = *std::prev(after);
        if (address < static_cast<const char*>(begin) + nbytes) return true;
    }
    const auto after = live_.upper_bound(address);
    if (after == live_.begin()) return false;
    const Block& block = std::prev(after)->second;
    return block.is_mapped && address < block.address + block.nbytes;
}

void DeviceMemory::poison(const Block& block) {
    char* at = of_kernels(block.address);
    stream(device_, block.stream).put([at, nbytes = block.nbytes] { std::memset(at, 0xFF, nbytes); });
}

// What other streams have done with goes back to its own.
void DeviceMemory::collect() {
    std::erase_if(waiting_, [this](const auto& waiting) {
        const auto& [block, tickets] = waiting;
        for (const auto& [other, ticket] : tickets) {
            if (!other->was_done(ticket)) return false;
        }
        poison(block);
        free_.emplace(Key{block.stream, block.nbytes}, block.address);
        return true;
    });
}

namespace {

struct AllMemory {
    std::mutex mutex;
    std::array<DeviceMemory*, kMostDevices> of{};
};
AllMemory& all_memory = *new AllMemory;

// By /proc/self/maps: whether all of it is mapped and may be written.
bool is_writable(const char* address, std::size_t nbytes) {
    std::ifstream maps("/proc/self/maps");
    std::string line;
    auto next = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t end = next + nbytes;
    while (next < end && std::getline(maps, line)) {
        unsigned long first = 0, last = 0;
        char read = 0, write = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx %c%c", &first, &last, &read, &write) != 4) continue;
        if (last <= next) continue;
        if (first > next || write != 'w') return false;
        next = last;
    }
    return next >= end;
}

}  // namespace

DeviceMemory& memory(int device) {
    open_device();
    const std::lock_guard lock(all_memory.mutex);
    DeviceMemory*& found = all_memory.of.at(device);
    if (found == nullptr) found = new DeviceMemory(device);
    return *found;
}

DeviceMemory* memory_of(const void* address) {
    const std::lock_guard lock(all_memory.mutex);
    for (DeviceMemory* each : all_memory.of) {
        if (each != nullptr && each->has(address)) return each;
    }
    return nullptr;
}

Registered page_lock(const void* address, std::size_t nbytes) {
    const auto* begin = static_cast<const char*>(address);
    if (is_page_locked(begin)) return Registered::kTwice;
    if (!is_writable(begin, nbytes)) return Registered::kReadOnly;
    const std::lock_guard lock(locked_mutex);
    locked[begin] = nbytes;
    return Registered::kDone;
}

bool page_unlock(const void* address) {
    const std::lock_guard lock(locked_mutex);
    return locked.erase(static_cast<const char*>(address)) > 0;
}

bool is_page_locked(const void* address, std::size_t nbytes) {
    const auto* begin = static_cast<const char*>(address);
    const std::lock_guard lock(locked_mutex);
    auto found = locked.upper_bound(begin);
    if (found == locked.begin()) return false;
    --found;
    return begin + nbytes <= found->first + found->second;
}

}  // namespace fakegpu
