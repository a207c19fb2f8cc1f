#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

// What tests set, and what they read. Free of torch.
namespace fakegpu {

constexpr int kMostDevices = 8;

struct Settings {
    std::atomic<std::int64_t> devices{2};
    std::atomic<std::int64_t> seed{1};          // of the delays; for streams that are made from now on
    std::atomic<std::int64_t> delay_us{0};      // each piece of work waits 0 .. delay_us at random
    std::atomic<std::int64_t> bytes_per_us{0};  // of copies between host and device; 0: no limit
    std::atomic<std::int64_t> lazy{0};          // streams run only what somebody waits for or asks after
    std::atomic<std::int64_t> memory_bytes{std::int64_t{1} << 36};  // of a device
    std::atomic<std::int64_t> fail_kernel{0};   // the n-th kernel that runs from now on writes where it must not
    std::atomic<std::int64_t> fail_context{0};  // the device can't be opened: its memory is full
    std::atomic<std::int64_t> fail_launch{0};   // the n-th launch from now on finds no memory for a library's handle
    std::atomic<std::int64_t> lost_devices{0};  // those that are lost: the sum of 1 << index
    std::atomic<std::int64_t> lost_after{0};    // so many pieces of work were put into their streams
    std::atomic<std::int64_t> lost_among{0};    // to processes that have used so many devices alone; 0: to all
    std::atomic<std::int64_t> lost_alone{0};    // a process that has used one can go on with the others
};

extern Settings settings;

// Sets one by its name. Throws std::invalid_argument for a name that there is not.
void configure(const std::string& name, std::int64_t value);

// Counts down a setting that names the n-th time; true at that time.
bool is_due(std::atomic<std::int64_t>& countdown);

enum Counter {
    kKernels,
    kCopiesIn,  // host to device
    kCopiesOut,
    kCopiesWithin,
    kBytesIn,
    kBytesOut,
    kPageableCopies,  // of the copies in and out: those whose host memory is not page-locked, or that no single run of
                      // bytes is
    kHostWaits,       // a thread stood still for the device, or would have if the device were slow
    kEventWaits,      // of these: for one event
    kAllocatedBytes,  // now
    kNumCounters
};

void count(Counter counter, std::int64_t by = 1);
std::vector<std::int64_t> counted();

// The calling thread waits for a device.
void count_wait(Counter also = kNumCounters);
std::map<std::int64_t, std::int64_t> waits_by_thread();  // by gettid()

}  // namespace fakegpu
