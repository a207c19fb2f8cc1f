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

// Files of one format: chunks of rows. The seam for file formats.
class RowReader {
  public:
    virtual ~RowReader() = default;
    RowReader() = default;
    RowReader(const RowReader&) = delete;
    RowReader& operator=(const RowReader&) = delete;

    struct Read {
        std::uint64_t rows = 0;  // of the chunk, up to the fault
        std::optional<stream::SourceFault> fault;
        std::vector<stream::LeftOut> left_out;
    };

    [[nodiscard]] virtual std::size_t num_chunks() const = 0;
    [[nodiscard]] virtual std::string name() const = 0;     // of the files, for messages
    [[nodiscard]] virtual bool in_file_order() const = 0;   // see stream::Source
    virtual void compare_with(stream::ChunkSums sums) = 0;  // likewise

    // Appends the chunk's rows (record.h), in file order; at a fault, those before it. Always the same; any number of
    // threads may read at once.
    [[nodiscard]] virtual Read read(std::size_t chunk, const RowShape& shape, stream::RecordBuffer& rows) const = 0;
};

}  // namespace sparsepool::rows
