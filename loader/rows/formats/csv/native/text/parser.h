#pragma once

#include <string_view>

#include "rows/formats/csv/native/columns.h"
#include "rows/native/lines/parse_result.h"
#include "rows/native/shape.h"
#include "stream/records.h"

namespace sparsepool::csv {

// Rows of whole lines of UTF-8, whose columns are cut as text/cells.h says. A number is as in svmlight files, with
// blanks around it; a category is a feature by its hash (rows/native/feature_hash.h) modulo the size of the field, and
// of two with one feature in a row one counts. Empty lines are no rows. Appends each row to `rows`; at a fault, those
// before it.
//
// `begins_file`: the text's first line is the file's, which may begin with a byte order mark. The text must be followed
// by a line feed, which is the last line's if it has none.
[[nodiscard]] rows::ParseResult parse_lines(std::string_view text, bool begins_file, const Columns& columns,
                                            const rows::RowShape& shape, stream::RecordBuffer& rows);

}  // namespace sparsepool::csv
