#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/files/identity.h"

// A data file that is opened anew for each read: any number can be in use, and a file that is truncated or replaced
// meanwhile is a fault that is returned, not a signal.
namespace sparsepool {

struct FileFault {
    bool changed = false;  // the file is not what it was; else the system can't read it
    std::string reason;
};

class FileDescriptor {
  public:
    explicit FileDescriptor(const std::string& path);
    ~FileDescriptor();
    FileDescriptor(const FileDescriptor&) = delete;
    FileDescriptor& operator=(const FileDescriptor&) = delete;

    // Why the file can't be used, or is not the expected one. Without `expected` the file as it is now becomes the
    // expected one, so that whatever is read from it is compared.
    [[nodiscard]] std::optional<FileFault> opening_fault(std::optional<ExpectedFile>& expected) const;
    [[nodiscard]] std::optional<FileFault> reopening_fault() const;

    // How the file has changed. To be called after a read: a write changes the file's time before its bytes, so what
    // was read from an unchanged file is good.
    [[nodiscard]] std::optional<FileFault> change(const std::optional<ExpectedFile>& expected) const;

    void expect_jumps() const;  // tells the system not to read ahead

    // Fills `out` from the file's bytes at `offset`.
    [[nodiscard]] std::optional<FileFault> read(std::span<std::uint8_t> out, std::uint64_t offset) const;

  private:
    int number_;
    int error_;  // of the opening
};

}  // namespace sparsepool
