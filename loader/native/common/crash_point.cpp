#include "common/crash_point.h"

#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <map>
#include <mutex>

namespace sparsepool {
namespace {

struct Armed {
    std::uint64_t at;
    Crash how;
    std::uint64_t times = 0;
};

std::mutex mutex;
std::map<std::string, Armed>& points() {
    static std::map<std::string, Armed> all;
    return all;
}

void crash(const char* name, Crash how) {
    std::fprintf(stderr, "crash point %s\n", name);
    switch (how) {
        case Crash::kKill: ::kill(::getpid(), SIGKILL); break;
        case Crash::kSegv:
            std::signal(SIGSEGV, SIG_DFL);
            std::raise(SIGSEGV);
            break;
        case Crash::kStop: ::kill(::getpid(), SIGSTOP); break;
        case Crash::kExit: ::_exit(0);
        case Crash::kNote: break;
    }
}

}  // namespace

namespace detail {

std::atomic<bool> any_crash_point_armed{false};

void came_by(const char* name) {
    Crash how;
    {
        const std::lock_guard lock(mutex);
        const auto found = points().find(name);
        if (found == points().end()) return;
        Armed& armed = found->second;
        if (++armed.times != armed.at && armed.how != Crash::kNote) return;
        how = armed.how;
    }
    crash(name, how);
}

}  // namespace detail

void arm_crash_point(const std::string& name, std::uint64_t at, Crash how) {
    const std::lock_guard lock(mutex);
    points().insert_or_assign(name, Armed{at, how});
    detail::any_crash_point_armed = true;
}

}  // namespace sparsepool
