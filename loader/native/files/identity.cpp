#include "files/identity.h"

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <system_error>

namespace sparsepool {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

std::string time_text(std::int64_t nanoseconds) {
    std::int64_t fraction = nanoseconds % kSecond;
    if (fraction < 0) fraction += kSecond;
    const std::time_t seconds = (nanoseconds - fraction) / kSecond;
    std::tm parts{};
    char text[64];
    if (::gmtime_r(&seconds, &parts) == nullptr) return std::to_string(nanoseconds) + " ns";
    const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    std::snprintf(text + length, sizeof text - length, ".%06d UTC", static_cast<int>(fraction / 1000));
    return text;
}

std::string sizes(const char* what, std::uint64_t now, std::uint64_t then) {
    return std::string(what) + ": " + std::to_string(now) + " bytes now, " + std::to_string(then) + " at the start";
}

}  // namespace

FileIdentity identity_of(const struct stat& status) {
    return {static_cast<std::uint64_t>(status.st_size), status.st_dev, status.st_ino,
            status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec};
}

std::string change_since(const ExpectedFile& expected, const FileIdentity& now) {
    const FileIdentity& then = expected.identity;
    if (now.device != then.device || now.inode != then.inode) {
        return sizes("has been replaced by another file", now.size, then.size);
    }
    if (now.size < then.size) return sizes("has been cut", now.size, then.size);
    if (now.size > then.size && expected.may_grow) return {};
    if (now.size > then.size) return sizes("has grown", now.size, then.size);
    if (now.modified == then.modified || then.modified == 0) return {};
    return "has been written to at " + time_text(now.modified) + ", last before the start at " +
           time_text(then.modified);
}

std::string change_since(const ExpectedFile& expected, const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) return change_since(expected, identity_of(status));
    return "can't be found any more: " + std::generic_category().message(errno);
}

}  // namespace sparsepool
