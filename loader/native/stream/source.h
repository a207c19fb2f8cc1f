#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stream/chunk_sums.h"
#include "stream/records.h"

// What a family of records does for the stream: chunks of files become records, records become a batch. What a record
// holds is its own business.
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

// What was left out of a chunk as the settings demand, of one kind.
struct LeftOut {
    std::string kind;           // in words
    SourceFault first;          // the first place
    std::uint64_t entries = 0;  // as many as can be known of
    std::uint64_t units = 0;    // whole ones: games, lines, records
    std::string unit;           // the noun for one
};

// A chunk on its way out of a source.
struct ChunkRead {
    std::size_t chunk;
    std::uint64_t pass;  // how often it has been read before
    RecordBuffer records;
    std::uint64_t entries = 0;  // in the chunk; `records` has those that pass the filters
    std::optional<SourceFault> fault;
    std::vector<LeftOut> left_out;
};

// Writes whole batches into slots. One a thread: it holds that thread's scratch memory.
class BatchWriter {
  public:
    virtual ~BatchWriter() = default;
    BatchWriter() = default;
    BatchWriter(const BatchWriter&) = delete;
    BatchWriter& operator=(const BatchWriter&) = delete;

    // Writes batch `number`, made of the records of `head` and then `body`, batch_size together, into `slot`.
    virtual void write(std::uint64_t number, const RecordSpan& head, const RecordSpan& body, std::byte* slot) = 0;
};

class Source {
  public:
    virtual ~Source() = default;
    Source() = default;
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

    [[nodiscard]] virtual std::size_t record_size() const = 0;  // bytes; 0: each has a size of its own
    [[nodiscard]] virtual std::size_t num_chunks() const = 0;
    [[nodiscard]] virtual std::uint32_t batch_size() const = 0;
    [[nodiscard]] virtual std::size_t slot_bytes() const = 0;

    // The files, as a message names them.
    [[nodiscard]] virtual std::string name() const = 0;

    // As many chunks as one thread should decode together, if there are enough for all threads.
    [[nodiscard]] virtual std::size_t together() const = 0;

    // Chunks are best read one after the other: they are not permuted. The entries of a window are shuffled all the
    // same.
    [[nodiscard]] virtual bool in_file_order() const { return false; }

    // Records of a chunk have nothing to do with one another, and none is left out: a chunk may be parted (split.h).
    [[nodiscard]] virtual bool records_are_apart() const { return false; }

    // From now on each chunk that is read is compared with its word, of num_chunks(). Before any thread decodes.
    virtual void compare_with(ChunkSums sums) = 0;

    // Appends the records of each chunk that pass the filters to its `records`, in file order; at a fault, those before
    // it. A function of chunk and pass (I1). Any number of threads may decode at once.
    virtual void decode(std::span<ChunkRead> chunks) const = 0;

    [[nodiscard]] virtual std::unique_ptr<BatchWriter> batch_writer() const = 0;
};

}  // namespace sparsepool::stream
