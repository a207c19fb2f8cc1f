#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "stream/record_buffer.h"

// Where records come from: chunks that can be decoded alone and in any order. The seam for file formats.
namespace sparsepool::stream {

// Data that can't be used: which file, where, and what is wrong (I8).
struct SourceFault {
    std::string file;
    std::optional<std::uint64_t> offset;  // bytes from the start of the file; none if it is about the whole
    std::string reason;
};

class RecordSource {
  public:
    virtual ~RecordSource() = default;
    RecordSource() = default;
    RecordSource(const RecordSource&) = delete;
    RecordSource& operator=(const RecordSource&) = delete;

    [[nodiscard]] virtual std::size_t num_chunks() const = 0;

    // The files, as a message names them.
    [[nodiscard]] virtual std::string name() const = 0;

    // Appends the entries of a chunk to `out`, in file order; at a fault, those before it. Any number of
    // threads may decode at once.
    virtual std::optional<SourceFault> decode(std::size_t chunk, RecordBuffer& out) const = 0;
};

}  // namespace sparsepool::stream
