#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "chess/formats/binpack/native/damage.h"
#include "chess/native/files/walk.h"
#include "common/files/descriptor.h"
#include "common/files/identity.h"

namespace sparsepool::binpack {

// The list of a binpack file's chunks. The file is not kept open: it is opened for each chunk that is read, so any
// number of files can be in use, and one that is cut or replaced meanwhile is an answer and not a signal. Immutable:
// any number of threads may use it.
class File {
  public:
    struct Chunk {
        std::uint64_t offset = 0;  // of the chunk's header in the file
        std::uint32_t size = 0;    // of the payload, which begins 8 bytes further
    };

    using Fault = FileFault;

    struct Opened {
        std::shared_ptr<const File> file;  // empty if the file can't be used at all
        Fault fault;                       // then why
    };

    // A chunk's bytes in memory of their own, or why they can't be had.
    class Bytes {
      public:
        Bytes() = default;
        explicit Bytes(Fault fault) : fault_(std::move(fault)) {}
        Bytes(std::unique_ptr<std::uint8_t[]> memory, std::size_t size) : memory_(std::move(memory)), size_(size) {}

        [[nodiscard]] const std::optional<Fault>& fault() const { return fault_; }
        [[nodiscard]] std::span<const std::uint8_t> whole() const { return {memory_.get(), size_}; }
        [[nodiscard]] std::span<const std::uint8_t> payload() const;

      private:
        std::unique_ptr<std::uint8_t[]> memory_;  // header and payload
        std::size_t size_ = 0;
        std::optional<Fault> fault_;
    };

    // Hops from header to header of the expected file, or of the one that is there; any other is a fault, here and
    // whenever a chunk is read. A file of 0 bytes is whole and has no chunks.
    static Opened open(const std::string& path, std::optional<ExpectedFile> expected = std::nullopt,
                       const chess::Demands& demands = {});

    // What has come out of a pipe, in memory: a chunk, or what is there instead of one. `begin`: bytes before it.
    static std::shared_ptr<const File> hold(std::string name, std::string bytes, std::uint64_t begin,
                                            const chess::Demands& demands = {});

    File(const File&) = delete;
    File& operator=(const File&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::uint64_t size() const { return size_; }
    [[nodiscard]] const chess::Demands& demands() const { return demands_; }  // of whoever reads entries

    // The chunks whose header and size are good, in file order, up to the first that is not.
    [[nodiscard]] const std::vector<Chunk>& chunks() const { return chunks_; }

    // The header at which the list ended early. Entries of the chunks before it are usable.
    [[nodiscard]] const std::optional<Damage>& header_damage() const { return header_damage_; }
    [[nodiscard]] bool ends_in_a_chunk() const { return cut_; }  // that damage is only that the file ends too early

    [[nodiscard]] Bytes read(std::size_t chunk) const;
    [[nodiscard]] std::string change() const { return expected_ ? change_since(*expected_, path_) : std::string(); }
    [[nodiscard]] std::uint64_t payload_offset(std::size_t chunk) const;

  private:
    File(std::string path, std::optional<ExpectedFile> expected, const chess::Demands& demands);
    [[nodiscard]] std::optional<Fault> list_chunks(const FileDescriptor& file);
    [[nodiscard]] std::string header_fault(std::uint64_t offset, std::span<const std::uint8_t> header);

    std::string path_;
    std::optional<ExpectedFile> expected_;
    chess::Demands demands_;
    std::uint64_t size_ = 0;
    std::optional<std::string> held_;  // the only chunk, if it is of a pipe
    std::vector<Chunk> chunks_;
    std::optional<Damage> header_damage_;
    bool cut_ = false;
};

// Bytes of the chunk that begins so, its header included; 0 if that is no header of a chunk.
[[nodiscard]] std::uint64_t chunk_bytes(std::span<const std::uint8_t> header);

}  // namespace sparsepool::binpack
