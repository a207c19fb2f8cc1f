#pragma once

#include <string_view>

#include "rows/formats/csv/native/columns.h"
#include "rows/native/lines/parse_result.h"
#include "rows/native/shape.h"
#include "stream/records.h"

namespace sparsepool::csv {

// Parses complete lines of UTF-8 and appends a row for each to `rows`, up to a fault. Empty lines are no rows.
//
// Columns are split as text/cells.h says. A number is written as in svmlight files, with blanks around it. A category
// becomes the feature of its hash (rows/native/feature_hash.h) modulo the size of the field; categories of a row with
// the same feature count once.
//
// `begins_file`: the first line of the text is that of the file, which may begin with a byte order mark. A line feed
// must follow the text; it belongs to the last line if that line has none.
[[nodiscard]] rows::ParseResult parse_lines(std::string_view text, bool begins_file, const Columns& columns,
                                            const rows::RowShape& shape, stream::RecordBuffer& rows);

}  // namespace sparsepool::csv
