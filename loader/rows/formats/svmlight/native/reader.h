#pragma once

#include "rows/formats/svmlight/native/text/parser.h"
#include "rows/native/lines/reader.h"

namespace sparsepool::svmlight {

class Reader final : public rows::LineReader {
  public:
    using LineReader::LineReader;

  private:
    [[nodiscard]] rows::ParseResult parse(std::size_t, std::size_t, std::string_view text, const rows::RowShape& shape,
                                          stream::RecordBuffer& rows) const override {
        return parse_lines(text, shape, rows);
    }
    [[nodiscard]] const char* column_noun() const override { return "column"; }
};

}  // namespace sparsepool::svmlight
