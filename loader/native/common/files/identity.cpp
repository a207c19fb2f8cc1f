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

constexpr int kLooks = 200;  // at a file that may be growing
constexpr auto kBetweenLooks = 5ms;

std::string time_text(const FileTime& time) {
    const std::time_t seconds = time.seconds;
    std::tm parts{};
    char text[64];
    if (::gmtime_r(&seconds, &parts) == nullptr) return std::to_string(seconds) + " s after 1970";
    const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    std::snprintf(text + length, sizeof text - length, ".%06d UTC", static_cast<int>(time.nanoseconds / 1000));
    return text;
}

std::string sizes(const char* what, std::uint64_t now, std::uint64_t then) {
    return std::string(what) + ": " + std::to_string(now) + " bytes now, " + std::to_string(then) + " at the start";
}

std::string difference(const ExpectedFile& expected, const FileIdentity& now) {
    const FileIdentity& then = expected.identity;
    if (now.device != then.device || now.inode != then.inode) {
        return sizes("has been replaced by another file", now.size, then.size);
    }
    if (now.size < then.size) return sizes("has been cut", now.size, then.size);
    if (now.size > then.size && expected.may_grow) return {};
    if (now.size > then.size) return sizes("has grown", now.size, then.size);
    if (!then.modified || now.modified == then.modified) return {};
    return "has been written to at " + time_text(*now.modified) + ", last before the start at " +
           time_text(*then.modified);
}

// A write at a file's end changes the time first and the size when bytes are there: between the two it looks like a
// write to the bytes that count.
bool may_be_growing(const ExpectedFile& expected, const FileIdentity& now) {
    return expected.may_grow && now.inode == expected.identity.inode && now.size == expected.identity.size;
}

template <typename Look>
std::string change_at(const ExpectedFile& expected, Look look) {
    for (int looks = 1;; ++looks) {
        struct stat status{};
        if (look(&status) != 0) return "can't be found any more: " + std::generic_category().message(errno);
        const FileIdentity now = identity_of(status);
        std::string what = difference(expected, now);
        if (what.empty() || looks == kLooks || !may_be_growing(expected, now)) return what;
        std::this_thread::sleep_for(kBetweenLooks);
    }
}

}  // namespace

FileIdentity identity_of(const struct stat& status) {
    return {static_cast<std::uint64_t>(status.st_size), status.st_dev, status.st_ino,
            FileTime{status.st_mtim.tv_sec, status.st_mtim.tv_nsec}};
}

std::string change_since(const ExpectedFile& expected, int descriptor) {
    return change_at(expected, [&](struct stat* status) { return ::fstat(descriptor, status); });
}

std::string change_since(const ExpectedFile& expected, const std::string& path) {
    return change_at(expected, [&](struct stat* status) { return ::stat(path.c_str(), status); });
}

}  // namespace sparsepool
