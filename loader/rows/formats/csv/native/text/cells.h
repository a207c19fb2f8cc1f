#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rows/formats/csv/native/columns.h"

namespace sparsepool::csv {

// The texts of one line after the other, cut as RFC 4180 says; a quote that does not begin a text is a letter.
class Cells {
  public:
    explicit Cells(const Cut& cut) : cut_(cut) {}

    // The line [text, end), with its line feed at `end`. Null; or where something is wrong, which `reason` says.
    [[nodiscard]] const char* split(const char* text, const char* end);

    [[nodiscard]] std::size_t size() const { return texts_.size(); }

    // Of a column. Behind it is a delimiter, a quote or a line feed.
    [[nodiscard]] std::string_view operator[](std::size_t column) const { return texts_[column]; }

    // Where it begins in the line.
    [[nodiscard]] const char* begin_of(std::size_t column) const { return begins_[column]; }

    [[nodiscard]] const std::string& reason() const { return reason_; }

  private:
    [[nodiscard]] const char* add_quoted(const char* text, const char* end);

    Cut cut_;
    std::vector<std::string_view> texts_;
    std::vector<const char*> begins_;
    std::string unquoted_;  // texts that had doubled quotes, of the line
    std::string reason_;
};

}  // namespace sparsepool::csv
