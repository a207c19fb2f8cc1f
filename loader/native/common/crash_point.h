#pragma once

#include <atomic>
#include <cstdint>
#include <string>

// Named points of the code at which a test can make the process die. In a real run none is armed, and each costs one
// relaxed load.
namespace sparsepool {

enum class Crash : std::uint8_t {
    kKill,  // SIGKILL
    kSegv,  // SIGSEGV
    kStop,  // SIGSTOP: stopped until SIGCONT or SIGKILL
    kExit,  // exit code 0 in the middle of work
    kNote,  // only writes a line to stderr
};

// Arms a point for the `at`-th time (from 1) that the process passes it; kNote for every time. Several points may be
// armed.
void arm_crash_point(const std::string& name, std::uint64_t at, Crash crash);

namespace detail {
extern std::atomic<bool> any_crash_point_armed;
void pass_crash_point(const char* name);
}  // namespace detail

inline void crash_point(const char* name) {
    if (detail::any_crash_point_armed.load(std::memory_order_relaxed)) [[unlikely]]
        detail::pass_crash_point(name);
}

}  // namespace sparsepool
