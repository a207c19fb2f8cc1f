#pragma once

#include <atomic>
#include <cstdint>
#include <string>

// Named places at which a test may have the process die. Nothing is armed in a real run: one relaxed load each.
namespace sparsepool {

enum class Crash : std::uint8_t {
    kKill,  // SIGKILL
    kSegv,  // SIGSEGV
    kStop,  // SIGSTOP: stopped until SIGCONT or SIGKILL
    kExit,  // exit code 0 in the middle of work
    kNote,  // only says on stderr that it came by
};

// Several may be armed; the `at`-th time (from 1) that the process comes by counts, for kNote every time.
void arm_crash_point(const std::string& name, std::uint64_t at, Crash how);

namespace detail {
extern std::atomic<bool> any_crash_point_armed;
void came_by(const char* name);
}  // namespace detail

inline void crash_point(const char* name) {
    if (detail::any_crash_point_armed.load(std::memory_order_relaxed)) [[unlikely]]
        detail::came_by(name);
}

}  // namespace sparsepool
