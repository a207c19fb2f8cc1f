#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/files/identity.h"

// A data file that is opened anew for each read: any number can be in use, and one that is cut or replaced meanwhile is
// an answer and not a signal.
namespace sparsepool {

struct FileFault {
    bool changed = false;  // the file is not what it was; else the system can't give it
    std::string reason;
};

class FileDescriptor {
  public:
    explicit FileDescriptor(const std::string& path);
    ~FileDescriptor();
    FileDescriptor(const FileDescriptor&) = delete;
    FileDescriptor& operator=(const FileDescriptor&) = delete;

    // Why it can't be used, or is not the file that is expected. If none is, the file as it is now becomes the one, so
    // that whatever is read of it is compared.
    [[nodiscard]] std::optional<FileFault> opening_fault(std::optional<ExpectedFile>& expected) const;
    [[nodiscard]] std::optional<FileFault> reopening_fault() const;

    // Asked after a read: a write changes the file's time before its bytes, so what was read of an unchanged file is
    // good.
    [[nodiscard]] std::optional<FileFault> change(const std::optional<ExpectedFile>& expected) const;

    void expect_jumps() const;

    // Fills `out` from the file's bytes at `offset`.
    [[nodiscard]] std::optional<FileFault> read(std::span<std::uint8_t> out, std::uint64_t offset) const;

  private:
    int number_;
    int error_;  // of the opening
};

}  // namespace sparsepool
