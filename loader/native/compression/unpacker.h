#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/descriptor.h"

namespace sparsepool::packed {

// The bytes of a compressed file, in order.
class PackedInput {
  public:
    explicit PackedInput(std::uint64_t size) : size_(size) {}

    void use(const FileDescriptor* file) { file_ = file; }  // from now on
    void seek(std::uint64_t position);
    [[nodiscard]] std::uint64_t position() const { return position_; }
    [[nodiscard]] bool at_end() const { return position_ == size_; }

    // The next bytes: `wanted` or more; less at the end of the file, or if it can't be read.
    [[nodiscard]] std::span<const std::uint8_t> peek(std::size_t wanted);
    void skip(std::size_t count);

    [[nodiscard]] const std::optional<FileFault>& fault() const { return fault_; }

  private:
    std::uint64_t size_;
    const FileDescriptor* file_ = nullptr;
    std::uint64_t position_ = 0;
    std::vector<std::uint8_t> bytes_;  // from position_ - used_ on
    std::size_t used_ = 0;
    std::optional<FileFault> fault_;
};

// Enough to decode from a place without what is before it.
struct UnpackerState {
    std::uint64_t position = 0;
    bool inside = false;  // of a gzip member
    unsigned bits = 0;    // of the byte before `position`, its upper ones, not used yet
    std::uint32_t sum = 0;
    std::uint32_t length = 0;
    std::string window;  // what was decoded last
};

// Decodes a file piece by piece: deflate's blocks, zstd's, or stretches of bzip2, which end where
// the file says, whoever decodes it.
class Unpacker {
  public:
    virtual ~Unpacker() = default;
    Unpacker() = default;
    Unpacker(const Unpacker&) = delete;
    Unpacker& operator=(const Unpacker&) = delete;

    [[nodiscard]] virtual const char* name() const = 0;
    [[nodiscard]] virtual std::uint64_t position() const = 0;  // byte in which the next block begins
    [[nodiscard]] virtual bool inside() const = 0;             // of a member or frame, which has not ended

    // Appends the next block, at most `most` bytes. What is wrong with it, if anything is; empty if the file could not
    // be read, too, which the input knows.
    [[nodiscard]] virtual std::string next(PackedInput& input, std::size_t most, std::string& text) = 0;

    // Where it is now, if decoding can begin there.
    [[nodiscard]] virtual std::optional<UnpackerState> state() const = 0;
    virtual void restore(const UnpackerState& state, PackedInput& input) = 0;
};

[[nodiscard]] std::unique_ptr<Unpacker> make_gzip_unpacker();
[[nodiscard]] std::unique_ptr<Unpacker> make_zstd_unpacker();
[[nodiscard]] std::unique_ptr<Unpacker> make_bzip2_unpacker();

using MakeUnpacker = std::unique_ptr<Unpacker> (*)();

// How a file is compressed.
struct Packing {
    MakeUnpacker make;
    const char* missing;  // why it can't be read on this machine; null if it can
};

inline constexpr std::size_t kMagicBytes = 10;  // by which a file is known to be compressed

// By a file's first bytes, kMagicBytes if it has so many; none if it is not compressed.
[[nodiscard]] std::optional<Packing> packing_of(std::span<const std::uint8_t> head);

}  // namespace sparsepool::packed
