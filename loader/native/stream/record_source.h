#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "stream/record_buffer.h"

// Where records come from: chunks that can be decoded alone and in any order. The seam for file formats.
namespace sparsepool::stream {

// Data that can't be used: which file, where, and what is wrong (I8).
struct SourceFault {
    // Damage is a property of the file. A file that has changed, or that the system can't give now, is never left out:
    // the stream would depend on the moment (I1).
    enum class Kind { kDamaged, kChanged, kUnreadable };

    std::string file;
    std::optional<std::uint64_t> offset;  // bytes from the start of the file; none if it is about the whole
    std::string reason;
    Kind kind = Kind::kDamaged;
};

// A chunk on its way out of a source.
struct ChunkRead {
    std::size_t chunk = 0;
    RecordBuffer records;
    std::optional<SourceFault> fault;
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

    // As many chunks as one thread should decode together, if there are enough for all threads.
    [[nodiscard]] virtual std::size_t together() const = 0;

    // Appends the entries of each chunk to its `records`, in file order; at a fault, those before it. Calls
    // `appended(i)` for every block appended to chunks[i], which may take entries of this block away again. Any number
    // of threads may decode at once. The flag kInCheck need not be right without `checks`.
    using Appended = std::function<void(std::size_t)>;
    virtual void decode(std::span<ChunkRead> chunks, bool checks, const Appended& appended) const = 0;
};

}  // namespace sparsepool::stream
