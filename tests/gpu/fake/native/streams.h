#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

// Streams: a thread each, which does what was put into it, in order and later than the host believes. Free of torch.
namespace fakegpu {

// What a device says of itself when it can go on no more. Sticks: from then on nothing runs there, and every call says
// it. Of a wrong kernel all devices of the process do.
void break_down(int device, const std::string& why);
void check_device(int device);  // throws std::runtime_error
// The device is used; it breaks down if it is one that is lost by now.
void use_device(int device);
void mend();  // when all streams are done with what they have: as if nothing had been

// The device is opened. Throws std::runtime_error in a process that was forked from one that had done so.
void open_device();
bool is_open();
bool is_forked();

class Stream {
  public:
    Stream(int device, std::int64_t id);

    using Work = std::function<void()>;
    // A ticket: the number of the piece. `nbytes`: that a bus carries.
    std::uint64_t put(Work work, std::size_t nbytes = 0);
    // Whether it is done. Who asks wants it to be done some day.
    bool is_done(std::uint64_t ticket);
    // The same without wanting it.
    bool was_done(std::uint64_t ticket);
    void wait(std::uint64_t ticket);
    // The same in another stream's thread, which does nothing meanwhile.
    void wait_in_stream(std::uint64_t ticket);
    std::uint64_t newest();
    // It runs only what somebody waits for, and that when no other stream has anything to do and the host has put
    // nothing anywhere for a while: whatever is not made to wait for it is done before.
    void set_late(bool late);

    const int device;
    const std::int64_t id;

  private:
    struct Piece {
        Work work;
        std::size_t nbytes;
    };
    void run();
    void want(std::uint64_t ticket);
    void pause(std::size_t nbytes);

    std::mutex mutex_;
    std::condition_variable work_, done_;
    std::deque<Piece> pieces_;
    std::uint64_t last_ = 0, finished_ = 0, wanted_ = 0;
    std::vector<std::uint64_t> waited_for_;  // by streams that stand in line
    std::atomic<bool> is_late_{false};
    std::mt19937_64 random_;
};

// Of one device; 0 is its default stream.
Stream& stream(int device, std::int64_t id);
std::int64_t new_stream(int device);
std::vector<Stream*> streams(int device);
// This one alone is late from now on; nullptr: none is.
void make_late(Stream* which);

// The calling thread's.
int current_device();
void set_current_device(int device);  // makes its context current, too, if the device was another
// The device whose context is current in the calling thread; -1: none is, for nothing has run there. As CUDA's driver
// has it, a launch needs it, and does not make it so by itself.
int current_context();
void set_current_context(int device);
std::int64_t current_stream_id(int device);
void set_current_stream(int device, std::int64_t id);
Stream& current_stream(int device);

// A place in a stream. Of an event that is recorded again, the newest counts.
struct Recording {
    Stream* stream = nullptr;
    std::uint64_t ticket = 0;
    std::chrono::steady_clock::time_point time;  // when the stream was there
};
std::shared_ptr<Recording> record(Stream& stream);
void make_wait(Stream& stream, const std::shared_ptr<Recording>& recording);

// The calling thread stands still until then. Throws std::runtime_error if the device has broken down.
void host_waits_for(Stream& stream, std::uint64_t ticket);
void host_waits_for_all(int device);

}  // namespace fakegpu
