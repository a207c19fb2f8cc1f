#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace sparsepool::stream {

// A file descriptor that is readable while the event is set. Not for two threads at once.
class Event {
  public:
    Event() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
    ~Event() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    [[nodiscard]] int descriptor() const { return descriptor_; }  // negative if the system had none

    void set(bool on) {
        if (on == is_set_) return;
        is_set_ = on;
        std::uint64_t count = 1;  // an eventfd counts what is written; a read sets it to zero
        ssize_t result = 0;
        do {
            result = on ? ::write(descriptor_, &count, sizeof count) : ::read(descriptor_, &count, sizeof count);
        } while (result < 0 && errno == EINTR);
    }

  private:
    int descriptor_;
    bool is_set_ = false;
};

}  // namespace sparsepool::stream
