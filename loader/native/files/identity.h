#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

// Whether a file is the one that it was: by what the system says of it, without reading it.
namespace sparsepool {

struct FileIdentity {
    std::uint64_t size = 0;  // bytes that count; the file may have had more
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t modified = 0;  // nanoseconds since 1970; 0: not compared, for the file had more bytes than count
};

struct ExpectedFile {
    FileIdentity identity;
    bool may_grow = false;  // bytes behind identity.size are nobody's concern
};

[[nodiscard]] FileIdentity identity_of(const struct stat& status);

// What is different now, in words; empty if the bytes that count can be taken for the same.
[[nodiscard]] std::string change_since(const ExpectedFile& expected, const FileIdentity& now);

// The same for the file that has this name now.
[[nodiscard]] std::string change_since(const ExpectedFile& expected, const std::string& path);

}  // namespace sparsepool
