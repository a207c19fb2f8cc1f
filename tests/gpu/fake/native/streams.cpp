#include "streams.h"

#include <dlfcn.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <bit>
#include <stdexcept>
#include <thread>
#include <utility>

#include "settings.h"

namespace fakegpu {
namespace {

constexpr int kAll = -1;  // devices
std::atomic<bool> opened{false}, forked{false};
std::atomic<std::uint64_t> used{0};  // devices, a bit each
std::array<std::atomic<bool>, kMostDevices> broken{};
std::mutex trouble_mutex;
std::string trouble;

struct AllStreams {
    std::mutex mutex;
    std::array<std::vector<Stream*>, kMostDevices> of;
};
AllStreams& all_streams = *new AllStreams;  // never taken apart: threads run until the process ends

// Which streams have something to do, for the one that is late.
class Activity {
  public:
    void begin() {
        const std::lock_guard lock(mutex_);
        ++busy_;
    }
    void end() {
        const std::lock_guard lock(mutex_);
        if (--busy_ <= 1) changed_.notify_all();
    }
    void put() {
        const std::lock_guard lock(mutex_);
        newest_ = std::chrono::steady_clock::now();
    }
    // Until only the calling thread's stream is busy and nothing has been put for a while.
    void wait_until_quiet() {
        constexpr auto kWhile = std::chrono::milliseconds(5);  // a host that does not wait puts its next piece sooner
        std::unique_lock lock(mutex_);
        while (busy_ > 1 || std::chrono::steady_clock::now() < newest_ + kWhile) {
            if (busy_ > 1) {
                changed_.wait(lock);
            } else {
                changed_.wait_until(lock, newest_ + kWhile);
            }
        }
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int busy_ = 0;
    std::chrono::steady_clock::time_point newest_;
};
Activity& activity = *new Activity;

thread_local int the_device = 0;
thread_local int the_context = -1;
thread_local std::array<std::int64_t, kMostDevices> the_streams{};

}  // namespace

void break_down(int device, const std::string& why) {
    const std::lock_guard lock(trouble_mutex);
    if (trouble.empty()) trouble = why;
    for (int each = 0; each < kMostDevices; ++each) {
        if (each == device || device < 0) broken[each] = true;
    }
}

void use_device(int device) {
    const std::uint64_t all = used |= std::uint64_t{1} << device;
    if (settings.lost_among != 0 && settings.lost_among != std::popcount(all)) return;
    if ((settings.lost_devices >> device & 1) == 0 || settings.lost_after-- > 0) return;
    break_down(settings.lost_alone ? device : kAll, "CUDA-capable device(s) is/are busy or unavailable");
}

void check_device(int device) {
    if (!broken.at(device)) return;
    const std::lock_guard lock(trouble_mutex);
    throw std::runtime_error("FAKEGPU error: " + trouble);
}

void mend() {
    for (int device = 0; device < kMostDevices; ++device) {
        for (Stream* each : streams(device)) each->wait(each->newest());
    }
    const std::lock_guard lock(trouble_mutex);
    trouble.clear();
    for (auto& each : broken) each = false;
}

void open_device() {
    if (forked) {
        throw std::runtime_error(
            "Cannot re-initialize FAKEGPU in forked subprocess: the process it was forked from had opened the device");
    }
    if (!opened && settings.fail_context) throw std::runtime_error("FAKEGPU error: out of memory");
    if (!opened.exchange(true)) pthread_atfork(nullptr, nullptr, [] { forked = true; });
}

bool is_open() { return opened; }
bool is_forked() { return forked; }

Stream::Stream(int device, std::int64_t id)
    : device(device), id(id), random_(settings.seed * 1000003 + device * 1009 + id) {
    std::thread([this] { run(); }).detach();
}

std::uint64_t Stream::put(Work work, std::size_t nbytes) {
    use_device(device);
    activity.put();
    const std::lock_guard lock(mutex_);
    pieces_.push_back({std::move(work), nbytes});
    ++last_;
    if (!settings.lazy && !is_late_) want(last_);
    return last_;
}

bool Stream::is_done(std::uint64_t ticket) {
    const std::lock_guard lock(mutex_);
    want(ticket);
    return finished_ >= ticket;
}

bool Stream::was_done(std::uint64_t ticket) {
    const std::lock_guard lock(mutex_);
    return finished_ >= ticket;
}

void Stream::wait(std::uint64_t ticket) {
    std::unique_lock lock(mutex_);
    want(ticket);
    done_.wait(lock, [&] { return finished_ >= ticket; });
}

void Stream::wait_in_stream(std::uint64_t ticket) {
    std::unique_lock lock(mutex_);
    want(ticket);
    if (finished_ >= ticket) return;
    waited_for_.push_back(ticket);
    activity.end();  // until this stream has done it, and says so
    done_.wait(lock, [&] { return finished_ >= ticket; });
}

void Stream::set_late(bool late) { is_late_ = late; }

std::uint64_t Stream::newest() {
    const std::lock_guard lock(mutex_);
    return last_;
}

void Stream::want(std::uint64_t ticket) {
    if (wanted_ >= ticket) return;
    if (wanted_ == finished_) activity.begin();
    wanted_ = ticket;
    work_.notify_one();
}

void Stream::pause(std::size_t nbytes) {
    const std::int64_t longest = settings.delay_us, speed = settings.bytes_per_us;
    std::int64_t microseconds = longest > 0 ? static_cast<std::int64_t>(random_() % (longest + 1)) : 0;
    if (speed > 0) microseconds += static_cast<std::int64_t>(nbytes) / speed;
    if (microseconds > 0) std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

void Stream::run() {
    // One thread a kernel, so that the bits do not depend on how many the process has.
    if (auto* set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(1);
    if (auto* set = reinterpret_cast<int (*)(int)>(dlsym(RTLD_DEFAULT, "MKL_Set_Num_Threads_Local"))) set(1);
    for (;;) {
        std::unique_lock lock(mutex_);
        work_.wait(lock, [&] { return !pieces_.empty() && finished_ < wanted_; });
        Piece piece = std::move(pieces_.front());
        pieces_.pop_front();
        lock.unlock();
        if (is_late_) activity.wait_until_quiet();
        pause(piece.nbytes);
        try {
            if (!broken[device]) piece.work();
        } catch (const std::exception& error) {
            break_down(kAll, std::string(error.what()).substr(0, 300));
        }
        piece.work = nullptr;
        lock.lock();
        ++finished_;
        std::erase_if(waited_for_, [this](std::uint64_t ticket) {
            if (ticket <= finished_) activity.begin();  // the one that waited
            return ticket <= finished_;
        });
        if (finished_ == wanted_) activity.end();
        done_.notify_all();
    }
}

Stream& stream(int device, std::int64_t id) {
    open_device();
    const std::lock_guard lock(all_streams.mutex);
    auto& of = all_streams.of.at(device);
    if (of.empty()) of.push_back(new Stream(device, 0));
    return *of.at(id);
}

std::int64_t new_stream(int device) {
    stream(device, 0);
    const std::lock_guard lock(all_streams.mutex);
    auto& of = all_streams.of.at(device);
    of.push_back(new Stream(device, static_cast<std::int64_t>(of.size())));
    return of.back()->id;
}

std::vector<Stream*> streams(int device) {
    const std::lock_guard lock(all_streams.mutex);
    return all_streams.of.at(device);
}

void make_late(Stream* which) {
    const std::lock_guard lock(all_streams.mutex);
    for (const auto& of : all_streams.of) {
        for (Stream* each : of) each->set_late(each == which);
    }
}

int current_device() { return the_device; }
void set_current_device(int device) {
    if (device != the_device) the_context = device;
    the_device = device;
}
int current_context() { return the_context; }
void set_current_context(int device) { the_context = device; }
std::int64_t current_stream_id(int device) { return the_streams.at(device); }
void set_current_stream(int device, std::int64_t id) { the_streams.at(device) = id; }
Stream& current_stream(int device) { return stream(device, the_streams.at(device)); }

std::shared_ptr<Recording> record(Stream& stream) {
    check_device(stream.device);
    auto recording = std::make_shared<Recording>();
    recording->stream = &stream;
    recording->ticket = stream.put([recording] { recording->time = std::chrono::steady_clock::now(); });
    return recording;
}

void make_wait(Stream& stream, const std::shared_ptr<Recording>& recording) {
    if (recording->stream == &stream) return;
    stream.put([recording] { recording->stream->wait_in_stream(recording->ticket); });
}

void host_waits_for(Stream& stream, std::uint64_t ticket) {
    count_wait();
    stream.wait(ticket);
    check_device(stream.device);
}

void host_waits_for_all(int device) {
    count_wait();
    for (Stream* each : streams(device)) each->wait(each->newest());
    check_device(device);
}

}  // namespace fakegpu
