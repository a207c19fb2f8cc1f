#pragma once

#include <string_view>

#include "rows/native/lines/parse_result.h"
#include "rows/native/record.h"
#include "rows/native/shape.h"
#include "stream/records.h"

namespace sparsepool::svmlight {

// Rows of whole lines:
//
//     LABEL [qid:NUMBER] NUMBER:VALUE NUMBER:VALUE ... [# comment]
//
// Parts are separated by any of space, tab, vertical tab, form feed and carriage return. Numbers ascend. With weights,
// LABEL may be LABEL:WEIGHT. Lines with nothing but a comment are no rows. Appends each row to `rows`; at a fault,
// those before it. The text must be followed by a line feed, which is the last line's if it has none.
[[nodiscard]] rows::ParseResult parse_lines(std::string_view text, const rows::RowShape& shape,
                                            stream::RecordBuffer& rows);

}  // namespace sparsepool::svmlight
