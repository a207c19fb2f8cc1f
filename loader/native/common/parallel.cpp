#include "common/parallel.h"

#include <atomic>
#include <memory>
#include <system_error>
#include <thread>

namespace sparsepool {
namespace {

// One call of run_parts. Threads that come too late find nothing to do, and keep it until they have seen that.
class Call {
  public:
    Call(std::size_t parts, const std::function<void(std::size_t)>& part)
        : parts_(parts), part_(&part), left_(static_cast<std::uint32_t>(parts)) {}

    void run(std::size_t part) {
        (*part_)(part);
        if (left_.fetch_sub(1) == 1) left_.notify_all();
    }

    // Runs parts, from 1 on, that nobody has begun.
    void help() {
        for (std::size_t part = next_.fetch_add(1); part < parts_; part = next_.fetch_add(1)) run(part);
    }

    void wait() const {
        for (std::uint32_t left = left_.load(); left != 0; left = left_.load()) left_.wait(left);
    }

  private:
    const std::size_t parts_;
    const std::function<void(std::size_t)>* const part_;  // valid as long as parts are left
    std::atomic<std::size_t> next_{1};
    std::atomic<std::uint32_t> left_;  // parts that have not ended
};

}  // namespace

void run_parts(std::size_t parts, const std::function<void(std::size_t)>& part) {
    if (parts <= 1) {
        if (parts == 1) part(0);
        return;
    }
    const auto call = std::make_shared<Call>(parts, part);
    try {
        for (std::size_t given = 1; given < parts; ++given) std::thread([call] { call->help(); }).detach();
    } catch (const std::system_error&) {
        // no thread to be had: the others do its part
    }
    call->run(0);
    call->help();
    call->wait();
}

}  // namespace sparsepool
