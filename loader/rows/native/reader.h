#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rows/native/shape.h"
#include "stream/chunk_sums.h"
#include "stream/records.h"
#include "stream/source.h"

namespace sparsepool::rows {

// Reads files of one format in chunks of rows. Each file format has one.
class RowReader {
  public:
    virtual ~RowReader() = default;
    RowReader() = default;
    RowReader(const RowReader&) = delete;
    RowReader& operator=(const RowReader&) = delete;

    struct Read {
        std::uint64_t rows = 0;  // of the chunk, before the fault
        std::optional<stream::SourceFault> fault;
        std::vector<stream::SkippedData> skipped;
    };

    [[nodiscard]] virtual std::size_t num_chunks() const = 0;
    [[nodiscard]] virtual std::string name() const = 0;     // of the files, for messages
    [[nodiscard]] virtual bool in_file_order() const = 0;   // see stream::Source
    virtual void compare_with(stream::ChunkSums sums) = 0;  // likewise

    // Appends the chunk's rows (record.h) in file order, up to a fault. The same each time. Any number of threads may
    // read at once.
    [[nodiscard]] virtual Read read(std::size_t chunk, const RowShape& shape, stream::RecordBuffer& rows) const = 0;
};

}  // namespace sparsepool::rows
