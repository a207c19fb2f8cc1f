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

// What a family of records does for the stream: chunks of files become records, records become a batch. The stream
// never looks into a record.
namespace sparsepool::stream {

// Data that can't be used: which file, where, and what is wrong (I8).
struct SourceFault {
    // Damage is a property of the file. A file that has changed, or that the system can't read now, is never skipped:
    // the stream would depend on the moment (I1).
    enum class Kind { kDamaged, kChanged, kUnreadable };

    std::string file;
    std::optional<std::uint64_t> offset;  // bytes from the start of the file; none if the fault is of the whole file
    std::string reason;
    Kind kind = Kind::kDamaged;
};

// Data of one kind that was left out of a chunk, as the settings demand.
struct SkippedData {
    std::string kind;           // as messages describe it
    SourceFault first;          // the first place
    std::uint64_t entries = 0;  // as many as can be counted
    std::uint64_t units = 0;    // complete ones: games, lines, records
    std::string unit;           // the noun for one of them
};

// A chunk to be decoded, and what was decoded of it.
struct ChunkRead {
    std::size_t chunk;
    std::uint64_t pass;  // how often the chunk has been read before
    RecordBuffer records;
    std::uint64_t entries = 0;  // in the chunk; `records` has those that pass the filters
    std::optional<SourceFault> fault;
    std::vector<SkippedData> skipped;
};

// Writes batches into slots. Each thread has one, with scratch memory of its own.
class BatchWriter {
  public:
    virtual ~BatchWriter() = default;
    BatchWriter() = default;
    BatchWriter(const BatchWriter&) = delete;
    BatchWriter& operator=(const BatchWriter&) = delete;

    // Writes batch `number` into `slot`: the records of `head`, then those of `body`, batch_size together.
    virtual void write(std::uint64_t number, const RecordSpan& head, const RecordSpan& body, std::byte* slot) = 0;
};

class Source {
  public:
    virtual ~Source() = default;
    Source() = default;
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

    [[nodiscard]] virtual std::size_t record_size() const = 0;  // bytes; 0: each record has a size of its own
    [[nodiscard]] virtual std::size_t num_chunks() const = 0;
    [[nodiscard]] virtual std::uint32_t batch_size() const = 0;
    [[nodiscard]] virtual std::size_t slot_bytes() const = 0;

    // The files, as a message names them.
    [[nodiscard]] virtual std::string name() const = 0;

    // How many chunks one call of `decode` should get, if there are enough for all threads.
    [[nodiscard]] virtual std::size_t chunks_per_task() const = 0;

    // Whether chunks are best read in the order of the file, so that they are not permuted. The entries of a window are
    // shuffled all the same.
    [[nodiscard]] virtual bool in_file_order() const { return false; }

    // Whether the records of a chunk have nothing to do with one another, and none is skipped: then training and
    // validation may share a chunk (split.h).
    [[nodiscard]] virtual bool has_independent_records() const { return false; }

    // Compares each chunk that is read from now on with its checksum in `sums`, which has num_chunks() of them. Must be
    // called before any thread decodes.
    virtual void compare_with(ChunkSums sums) = 0;

    // Appends the records of each chunk that pass the filters to its `records`, in file order; at a fault, those before
    // the fault. A function of chunk and pass (I1). Any number of threads may decode at once.
    virtual void decode(std::span<ChunkRead> chunks) const = 0;

    [[nodiscard]] virtual std::unique_ptr<BatchWriter> batch_writer() const = 0;
};

}  // namespace sparsepool::stream
