#include "common/files/descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace sparsepool {
namespace {

std::string error_text(int error) { return std::generic_category().message(error); }

bool is_gone(int error) { return error == ENOENT || error == ENOTDIR || error == ESTALE; }

}  // namespace

// O_NONBLOCK: opening a named pipe does not wait; the pipe is refused later.
FileDescriptor::FileDescriptor(const std::string& path)
    : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), error_(number_ < 0 ? errno : 0) {}

FileDescriptor::~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
}

std::optional<FileFault> FileDescriptor::opening_fault(std::optional<ExpectedFile>& expected) const {
    if (error_ != 0) return FileFault{expected && is_gone(error_), error_text(error_)};
    if (std::optional<FileFault> changed = change(expected)) return changed;
    struct stat status{};
    if (::fstat(number_, &status) != 0) return FileFault{false, error_text(errno)};
    if (S_ISDIR(status.st_mode)) return FileFault{false, "is a folder, not a file"};
    if (!S_ISREG(status.st_mode)) return FileFault{false, "is not a regular file"};
    if (!expected) expected = ExpectedFile{identity_of(status)};
    return std::nullopt;
}

std::optional<FileFault> FileDescriptor::reopening_fault() const {
    if (error_ == 0) return std::nullopt;
    return FileFault{is_gone(error_), "can't be opened any more: " + error_text(error_)};
}

std::optional<FileFault> FileDescriptor::change(const std::optional<ExpectedFile>& expected) const {
    if (!expected) return std::nullopt;
    std::string change = change_since(*expected, number_);
    if (change.empty()) return std::nullopt;
    return FileFault{true, std::move(change)};
}

void FileDescriptor::expect_jumps() const { ::posix_fadvise(number_, 0, 0, POSIX_FADV_RANDOM); }

std::optional<FileFault> FileDescriptor::read(std::span<std::uint8_t> out, std::uint64_t offset) const {
    while (!out.empty()) {
        const ssize_t count = ::pread(number_, out.data(), out.size(), static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return FileFault{false, "can't be read: " + error_text(errno)};
        if (count == 0) return FileFault{true, "has been cut: it ends at byte " + std::to_string(offset)};
        out = out.subspan(static_cast<std::size_t>(count));
        offset += static_cast<std::uint64_t>(count);
    }
    return std::nullopt;
}

}  // namespace sparsepool
