#include "common/files/identity.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <system_error>
#include <thread>

namespace sparsepool {
namespace {

using namespace std::chrono_literals;

// How often, and at which intervals, a file that may be growing is checked.
constexpr int kMaxChecks = 200;
constexpr auto kCheckInterval = 5ms;

std::string format_time(const FileTime& time) {
    const std::time_t seconds = time.seconds;
    std::tm parts{};
    char text[64];
    if (::gmtime_r(&seconds, &parts) == nullptr) return std::to_string(seconds) + " s after 1970";
    const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    std::snprintf(text + length, sizeof text - length, ".%06d UTC", static_cast<int>(time.nanoseconds / 1000));
    return text;
}

std::string describe_sizes(const char* change, std::uint64_t current, std::uint64_t original) {
    return std::string(change) + ": " + std::to_string(current) + " bytes now, " + std::to_string(original) +
           " at the start";
}

// How the file differs from the expected one, as a message tells it. Empty if it does not.
std::string describe_change(const ExpectedFile& expected, const FileIdentity& current) {
    const FileIdentity& original = expected.identity;
    if (current.device != original.device || current.inode != original.inode) {
        return describe_sizes("has been replaced by another file", current.size, original.size);
    }
    if (current.size < original.size) return describe_sizes("has been cut", current.size, original.size);
    if (current.size > original.size) {
        return expected.may_grow ? "" : describe_sizes("has grown", current.size, original.size);
    }
    if (!original.modified || current.modified == original.modified) return {};
    return "has been written to at " + format_time(*current.modified) + ", last before the start at " +
           format_time(*original.modified);
}

// Whether a new time may mean that the file is growing. A write at the end of a file changes the time first, and the
// size when the bytes are there: in between it looks like a write to the bytes that count.
bool may_be_growing(const ExpectedFile& expected, const FileIdentity& current) {
    return expected.may_grow && current.inode == expected.identity.inode && current.size == expected.identity.size;
}

// `get_status`: ::stat or ::fstat of the file.
template <typename GetStatus>
std::string find_change(const ExpectedFile& expected, GetStatus get_status) {
    for (int check = 1;; ++check) {
        struct stat status{};
        if (get_status(&status) != 0) return "can't be found any more: " + std::generic_category().message(errno);
        const FileIdentity current = identity_of(status);
        std::string change = describe_change(expected, current);
        if (change.empty() || check == kMaxChecks || !may_be_growing(expected, current)) return change;
        std::this_thread::sleep_for(kCheckInterval);
    }
}

}  // namespace

FileIdentity identity_of(const struct stat& status) {
    return {static_cast<std::uint64_t>(status.st_size), status.st_dev, status.st_ino,
            FileTime{status.st_mtim.tv_sec, status.st_mtim.tv_nsec}};
}

std::string change_since(const ExpectedFile& expected, int descriptor) {
    return find_change(expected, [&](struct stat* status) { return ::fstat(descriptor, status); });
}

std::string change_since(const ExpectedFile& expected, const std::string& path) {
    return find_change(expected, [&](struct stat* status) { return ::stat(path.c_str(), status); });
}

}  // namespace sparsepool
