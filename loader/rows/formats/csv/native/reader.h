#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "rows/formats/csv/native/columns.h"
#include "rows/formats/csv/native/text/parser.h"
#include "rows/native/lines/reader.h"

namespace sparsepool::csv {

// Files with columns, which may be in another order in each.
class Reader final : public rows::LineReader {
  public:
    Reader(std::vector<std::shared_ptr<const lines::LineFile>> files, std::vector<Columns> columns)
        : LineReader(std::move(files)), columns_(std::move(columns)) {}

  private:
    [[nodiscard]] rows::ParseResult parse(std::size_t file, std::size_t piece, std::string_view text,
                                          const rows::RowShape& shape, stream::RecordBuffer& rows) const override {
        require_fit(columns_[file], shape);
        return parse_lines(text, piece == 0, columns_[file], shape, rows);
    }
    [[nodiscard]] const char* column_noun() const override { return "byte"; }

    std::vector<Columns> columns_;  // of each file
};

}  // namespace sparsepool::csv
