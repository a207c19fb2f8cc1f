#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rows/native/record.h"
#include "rows/native/shape.h"
#include "stream/records.h"

namespace sparsepool::svmlight {

// What is wrong with a text, and where. All numbers count from 0.
struct TextFault {
    std::uint64_t line = 0;
    std::uint64_t column = 0;  // byte of the line
    std::string reason;        // what is expected, and what is there
};

struct Parsed {
    std::uint64_t lines = 0;  // of the text; at a fault, those before it
    std::uint64_t rows = 0;
    std::optional<TextFault> fault;
};

// Rows of whole lines:
//
//     LABEL [qid:NUMBER] NUMBER:VALUE NUMBER:VALUE ... [# comment]
//
// Parts are separated by any of space, tab, vertical tab, form feed and carriage return. Numbers ascend. With weights,
// LABEL may be LABEL:WEIGHT. Lines with nothing but a comment are no rows. Appends each row to `rows`; at a fault,
// those before it. The text must be followed by a line feed, which is the last line's if it has none.
[[nodiscard]] Parsed parse_lines(std::string_view text, const rows::RowShape& shape, stream::RecordBuffer& rows);

}  // namespace sparsepool::svmlight
