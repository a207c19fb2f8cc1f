#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace sparsepool::stream {

// A descriptor that is readable while it is set. Not for two threads at once.
class Event {
  public:
    Event() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
    ~Event() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    [[nodiscard]] int descriptor() const { return descriptor_; }  // negative if none could be had

    void set(bool on) {
        if (on == on_) return;
        on_ = on;
        std::uint64_t value = 1;
        while ((on ? ::write(descriptor_, &value, sizeof value) : ::read(descriptor_, &value, sizeof value)) < 0 &&
               errno == EINTR) {}
    }

  private:
    int descriptor_;
    bool on_ = false;
};

}  // namespace sparsepool::stream
