#include "common/parallel.h"

#include <atomic>
#include <memory>
#include <system_error>
#include <thread>

namespace sparsepool {
namespace {

// One call of run_parts. The threads share its ownership: a thread that starts late finds no part to run.
class Call {
  public:
    Call(std::size_t parts, const std::function<void(std::size_t)>& part)
        : parts_(parts), part_(&part), num_unfinished_(static_cast<std::uint32_t>(parts)) {}

    void run(std::size_t part) {
        (*part_)(part);
        const bool was_last = num_unfinished_.fetch_sub(1) == 1;
        if (was_last) num_unfinished_.notify_all();
    }

    // Runs parts that no thread has begun, from part 1 on.
    void run_unclaimed() {
        std::size_t part = next_.fetch_add(1);
        while (part < parts_) {
            run(part);
            part = next_.fetch_add(1);
        }
    }

    void wait() const {
        std::uint32_t unfinished = num_unfinished_.load();
        while (unfinished != 0) {
            num_unfinished_.wait(unfinished);
            unfinished = num_unfinished_.load();
        }
    }

  private:
    const std::size_t parts_;
    const std::function<void(std::size_t)>* const part_;  // valid as long as parts are unfinished
    std::atomic<std::size_t> next_{1};                    // part that no thread has claimed
    std::atomic<std::uint32_t> num_unfinished_;
};

}  // namespace

void run_parts(std::size_t parts, const std::function<void(std::size_t)>& part) {
    if (parts <= 1) {
        if (parts == 1) part(0);
        return;
    }
    const auto call = std::make_shared<Call>(parts, part);
    try {
        for (std::size_t started = 1; started < parts; ++started) {
            std::thread([call] { call->run_unclaimed(); }).detach();
        }
    } catch (const std::system_error&) {
        // The system has no more threads: those that were started run all parts.
    }
    call->run(0);
    call->run_unclaimed();
    call->wait();
}

}  // namespace sparsepool
