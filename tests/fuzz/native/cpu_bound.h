#pragma once

#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string_view>

namespace sparsepool::fuzz {

// Aborts the process if this scope takes more CPU time than allowed. Wall time, which libFuzzer's -timeout measures,
// would make findings of a busy machine. The abort comes in the thread that runs, so its stack shows where.
class CpuBound {
  public:
    explicit CpuBound(std::chrono::microseconds allowed) {
        std::signal(SIGPROF, give_up);
        set(allowed);
    }
    ~CpuBound() { set(std::chrono::microseconds::zero()); }
    CpuBound(const CpuBound&) = delete;
    CpuBound& operator=(const CpuBound&) = delete;

  private:
    static void give_up(int) {
        constexpr std::string_view text = "one input took more CPU time than it may\n";
        if (::write(STDERR_FILENO, text.data(), text.size()) < 0) {}
        std::abort();
    }

    static void set(std::chrono::microseconds allowed) {
        constexpr std::chrono::microseconds::rep second = 1'000'000;
        itimerval timer{};
        timer.it_value.tv_sec = allowed.count() / second;
        timer.it_value.tv_usec = allowed.count() % second;
        if (::setitimer(ITIMER_PROF, &timer, nullptr) != 0) std::abort();
    }
};

}  // namespace sparsepool::fuzz
