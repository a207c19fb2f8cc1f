#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "chess/native/record.h"
#include "stream/chunk_sums.h"
#include "stream/records.h"
#include "stream/source.h"

namespace sparsepool::chess {

// Files of one format: chunks that can be decoded alone and in any order. The seam for file formats.
class PositionReader {
  public:
    virtual ~PositionReader() = default;
    PositionReader() = default;
    PositionReader(const PositionReader&) = delete;
    PositionReader& operator=(const PositionReader&) = delete;

    // A chunk that is being read.
    struct Reading {
        std::size_t chunk = 0;  // of this reader
        stream::RecordBuffer* records = nullptr;
        std::optional<stream::SourceFault> fault;
        std::vector<stream::SkippedData> skipped;
    };

    [[nodiscard]] virtual std::size_t num_chunks() const = 0;
    [[nodiscard]] virtual std::string name() const = 0;             // of the files, for messages
    [[nodiscard]] virtual std::size_t chunks_per_task() const = 0;  // as many chunks as are best decoded by one thread
    [[nodiscard]] virtual bool in_file_order() const { return false; }  // see stream::Source
    virtual void compare_with(stream::ChunkSums sums) = 0;              // see stream::Source

    // Appends the positions of each chunk to its records (chess::Record), in file order; at a fault, those before it.
    // Calls `appended(i)` for every block appended to readings[i], which may take positions of this block away again.
    // Any number of threads may read at once. The flag kInCheck need not be right without `checks`.
    using Appended = std::function<void(std::size_t)>;
    virtual void read(std::span<Reading> readings, bool checks, const Appended& appended) const = 0;
};

}  // namespace sparsepool::chess
