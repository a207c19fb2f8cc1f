#include "settings.h"

#include <unistd.h>

#include <mutex>
#include <stdexcept>

namespace fakegpu {
namespace {

std::array<std::atomic<std::int64_t>, kNumCounters> counters;
std::mutex waits_mutex;
std::map<std::int64_t, std::int64_t> waits;

}  // namespace

Settings settings;

void configure(const std::string& name, std::int64_t value) {
    const std::map<std::string, std::atomic<std::int64_t>*> all{
        {"devices", &settings.devices},
        {"seed", &settings.seed},
        {"delay_us", &settings.delay_us},
        {"bytes_per_us", &settings.bytes_per_us},
        {"lazy", &settings.lazy},
        {"memory_bytes", &settings.memory_bytes},
        {"fail_kernel", &settings.fail_kernel},
        {"fail_context", &settings.fail_context},
        {"fail_launch", &settings.fail_launch},
        {"lost_devices", &settings.lost_devices},
        {"lost_after", &settings.lost_after},
        {"lost_among", &settings.lost_among},
        {"lost_alone", &settings.lost_alone},
    };
    const auto found = all.find(name);
    if (found == all.end()) throw std::invalid_argument("the fake GPU has no setting " + name);
    *found->second = value;
}

bool is_due(std::atomic<std::int64_t>& countdown) {
    std::int64_t left = countdown;
    while (left > 0 && !countdown.compare_exchange_weak(left, left - 1)) {}
    return left == 1;
}

void count(Counter counter, std::int64_t by) { counters[counter] += by; }

std::vector<std::int64_t> counted() { return {counters.begin(), counters.end()}; }

void count_wait(Counter also) {
    count(kHostWaits);
    if (also != kNumCounters) count(also);
    const std::lock_guard lock(waits_mutex);
    ++waits[gettid()];
}

std::map<std::int64_t, std::int64_t> waits_by_thread() {
    const std::lock_guard lock(waits_mutex);
    return waits;
}

}  // namespace fakegpu
