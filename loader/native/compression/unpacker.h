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

    void set_file(const FileDescriptor* file) { file_ = file; }
    void seek(std::uint64_t position);
    [[nodiscard]] std::uint64_t position() const { return position_; }
    [[nodiscard]] bool at_end() const { return position_ == size_; }

    // The next bytes, `min_size` or more. Fewer at the end of the file, or if the file can't be read.
    [[nodiscard]] std::span<const std::uint8_t> peek(std::size_t min_size);
    void skip(std::size_t count);

    [[nodiscard]] const std::optional<FileFault>& fault() const { return fault_; }

  private:
    std::uint64_t size_;
    const FileDescriptor* file_ = nullptr;
    std::uint64_t position_ = 0;
    std::vector<std::uint8_t> buffer_;  // bytes of the file from position_ - num_consumed_ on
    std::size_t num_consumed_ = 0;      // of the buffer
    std::optional<FileFault> fault_;
};

// What is needed to decode a file from a position on.
struct UnpackerState {
    std::uint64_t position = 0;
    bool inside = false;           // of a gzip member
    unsigned num_unused_bits = 0;  // upper bits of the byte before `position` that belong to the next block
    std::uint32_t checksum = 0;    // of the member so far
    std::uint32_t length = 0;      // likewise
    std::string window;            // the bytes decoded last
};

// Decodes a compressed file step by step. A step is a block of deflate or zstd, or 4096 bytes of bzip2: it ends at the
// same byte of the file whenever the file is decoded.
class Unpacker {
  public:
    virtual ~Unpacker() = default;
    Unpacker() = default;
    Unpacker(const Unpacker&) = delete;
    Unpacker& operator=(const Unpacker&) = delete;

    [[nodiscard]] virtual const char* name() const = 0;
    [[nodiscard]] virtual std::uint64_t position() const = 0;  // byte of the file in which the next step begins
    [[nodiscard]] virtual bool inside() const = 0;             // whether a member or frame has not ended

    // Decodes the next step and appends it to `text`, which may have at most `max_size` bytes. Returns what is wrong
    // with the data, or nothing. If the file can't be read, it returns nothing and input.fault() is set.
    [[nodiscard]] virtual std::string decode_next(PackedInput& input, std::size_t max_size, std::string& text) = 0;

    // The state at the current position; none if decoding can't begin there.
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
    const char* missing;  // the message that its library is missing on this machine; null if it is there
};

inline constexpr std::size_t kMagicBytes = 10;  // enough to recognize a compressed file

// Recognizes how a file is compressed by its first kMagicBytes bytes, or all if it has fewer. None if it is not
// compressed.
[[nodiscard]] std::optional<Packing> packing_of(std::span<const std::uint8_t> head);

}  // namespace sparsepool::packed
