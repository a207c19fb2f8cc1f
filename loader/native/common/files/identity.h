#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

// Tells whether a file has changed, by its metadata alone.
namespace sparsepool {

// A time since 1970, in two numbers as the system has it: nanoseconds in one number would end in the year 2262.
struct FileTime {
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;  // of the second

    bool operator==(const FileTime&) const = default;
};

struct FileIdentity {
    std::uint64_t size = 0;  // bytes that count; the file may have more
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::optional<FileTime> modified;  // none: not compared, since the file has more bytes than count
};

struct ExpectedFile {
    FileIdentity identity;
    bool may_grow = false;  // bytes after identity.size do not count
};

[[nodiscard]] FileIdentity identity_of(const struct stat& status);

// How an open file, or the file of this name, differs from the expected one, as a message tells it. Empty if the bytes
// that count are the same as far as metadata tells. May wait for a second if the file may grow and only its time is
// different.
[[nodiscard]] std::string change_since(const ExpectedFile& expected, int descriptor);
[[nodiscard]] std::string change_since(const ExpectedFile& expected, const std::string& path);

}  // namespace sparsepool
