#pragma once

#include <string_view>

#include "rows/native/lines/parse_result.h"
#include "rows/native/record.h"
#include "rows/native/shape.h"
#include "stream/records.h"

namespace sparsepool::svmlight {

// Parses complete lines and appends a row for each to `rows`, up to a fault:
//
//     LABEL [qid:NUMBER] NUMBER:VALUE NUMBER:VALUE ... [# comment]
//
// Parts are separated by spaces, tabs, vertical tabs, form feeds and carriage returns. Numbers ascend. With weights,
// LABEL may be LABEL:WEIGHT. Lines with nothing but a comment are no rows. A line feed must follow the text; it belongs
// to the last line if that line has none.
[[nodiscard]] rows::ParseResult parse_lines(std::string_view text, const rows::RowShape& shape,
                                            stream::RecordBuffer& rows);

}  // namespace sparsepool::svmlight
