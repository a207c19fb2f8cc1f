#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/binpack/damage.h"

namespace sparsepool {

// A binpack file, mapped read-only, and the list of its chunks. Immutable once open: any number of threads
// may use it. The file must not be cut while it is open.
class BinpackFile {
  public:
    struct Chunk {
        std::uint64_t offset = 0;  // of the chunk's header in the file
        std::uint32_t size = 0;    // of the payload, which begins 8 bytes further
    };

    struct Opened {
        std::shared_ptr<const BinpackFile> file;  // empty if the file can't be read at all
        std::string error;                        // then why
    };

    // Maps the file and hops from header to header. A file of 0 bytes is whole and has no chunks.
    static Opened open(const std::string& path);

    ~BinpackFile();
    BinpackFile(const BinpackFile&) = delete;
    BinpackFile& operator=(const BinpackFile&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::uint64_t size() const { return bytes_.size(); }

    // The chunks whose header and size are good, in file order, up to the first that is not.
    [[nodiscard]] const std::vector<Chunk>& chunks() const { return chunks_; }

    // The header at which the list ended early. Entries of the chunks before it are usable.
    [[nodiscard]] const std::optional<Damage>& header_damage() const { return header_damage_; }

    [[nodiscard]] std::span<const std::uint8_t> payload(std::size_t chunk) const;
    [[nodiscard]] std::uint64_t payload_offset(std::size_t chunk) const;

  private:
    BinpackFile(std::string path, std::span<const std::uint8_t> bytes);
    void list_chunks();
    [[nodiscard]] std::string header_fault(std::uint64_t offset) const;

    std::string path_;
    std::span<const std::uint8_t> bytes_;
    std::vector<Chunk> chunks_;
    std::optional<Damage> header_damage_;
};

}  // namespace sparsepool
