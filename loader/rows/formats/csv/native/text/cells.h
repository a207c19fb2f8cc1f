#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rows/formats/csv/native/columns.h"

namespace sparsepool::csv {

// Splits lines into cells as RFC 4180 says. A quote that is not the first character of a cell is a letter.
class Cells {
  public:
    explicit Cells(const Cut& cut) : cut_(cut) {}

    // Splits the line [text, end), whose line feed is at `end`. Returns null, or where the line is wrong; `reason`
    // tells why.
    [[nodiscard]] const char* split(const char* text, const char* end);

    [[nodiscard]] std::size_t size() const { return texts_.size(); }

    // The text of a column. A delimiter, a quote or a line feed follows it in memory.
    [[nodiscard]] std::string_view operator[](std::size_t column) const { return texts_[column]; }

    // Where the cell of a column begins in the line.
    [[nodiscard]] const char* begin_of(std::size_t column) const { return begins_[column]; }

    [[nodiscard]] const std::string& reason() const { return reason_; }

  private:
    [[nodiscard]] const char* add_unquoted(const char* text, const char* end);
    [[nodiscard]] const char* add_quoted(const char* text, const char* end);
    [[nodiscard]] const char* find_quote(const char* text, const char* end) const;
    [[nodiscard]] const char* add_with_doubled_quotes(const char* text, const char* quote, const char* end);

    Cut cut_;
    std::vector<std::string_view> texts_;
    std::vector<const char*> begins_;
    std::string undoubled_;  // the line's texts with doubled quotes, which are single here
    std::string reason_;
};

}  // namespace sparsepool::csv
