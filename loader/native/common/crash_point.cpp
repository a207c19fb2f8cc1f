#include "common/crash_point.h"

#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <map>
#include <mutex>

namespace sparsepool {
namespace {

struct ArmedPoint {
    std::uint64_t at;  // crashes the `at`-th time that the process passes
    Crash crash;
    std::uint64_t num_passed = 0;
};

std::mutex mutex;
std::map<std::string, ArmedPoint>& points() {
    static std::map<std::string, ArmedPoint> all;
    return all;
}

void perform(const char* name, Crash crash) {
    std::fprintf(stderr, "crash point %s\n", name);
    switch (crash) {
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

void pass_crash_point(const char* name) {
    Crash crash;
    {
        const std::lock_guard lock(mutex);
        const auto entry = points().find(name);
        if (entry == points().end()) return;
        ArmedPoint& point = entry->second;
        ++point.num_passed;
        if (point.num_passed != point.at && point.crash != Crash::kNote) return;
        crash = point.crash;
    }
    perform(name, crash);
}

}  // namespace detail

void arm_crash_point(const std::string& name, std::uint64_t at, Crash crash) {
    const std::lock_guard lock(mutex);
    points().insert_or_assign(name, ArmedPoint{at, crash});
    detail::any_crash_point_armed = true;
}

}  // namespace sparsepool
