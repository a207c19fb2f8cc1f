#include "rows/formats/csv/native/text/cells.h"

#include <algorithm>
#include <cstring>

namespace sparsepool::csv {

// Adds cell after cell, each up to a delimiter or the end of the line.
const char* Cells::split(const char* text, const char* end) {
    texts_.clear();
    begins_.clear();
    undoubled_.clear();
    if (end != text && end[-1] == '\r') --end;
    while (true) {
        begins_.push_back(text);
        const bool is_quoted = cut_.quote && text != end && *text == *cut_.quote;
        const char* const cell_end = is_quoted ? add_quoted(text, end) : add_unquoted(text, end);
        if (cell_end == nullptr) return text;
        if (cell_end == end) return nullptr;
        if (*cell_end != cut_.delimiter) {
            reason_ = std::string("expected '") + cut_.delimiter + "' or the end of the line behind quoted text";
            return cell_end;
        }
        text = cell_end + 1;
    }
}

// Adds the cell at `text` and returns its end, a delimiter or the end of the line.
const char* Cells::add_unquoted(const char* text, const char* end) {
    const char delimiter = cut_.delimiter;
    const char* cell_end = text;
    while (cell_end != end && *cell_end != delimiter) ++cell_end;
    texts_.emplace_back(text, static_cast<std::size_t>(cell_end - text));
    return cell_end;
}

// Adds the cell whose first quote is at `text`. Returns what follows its last quote, or null if the line has none.
const char* Cells::add_quoted(const char* text, const char* end) {
    const char* const content = text + 1;
    const char* const quote = find_quote(content, end);
    if (quote != nullptr) {
        const bool is_doubled = quote + 1 != end && quote[1] == *cut_.quote;
        if (is_doubled) {
            const char* const cell_end = add_with_doubled_quotes(content, quote, end);
            if (cell_end != nullptr) return cell_end;
        } else {
            texts_.emplace_back(content, static_cast<std::size_t>(quote - content));
            return quote + 1;
        }
    }
    reason_ =
        "quoted text does not end on its line; text with line breaks can't be read: write them as spaces, "
        "or, if quotes are letters here, set data.rows.columns.quote = \"\"";
    return nullptr;
}

const char* Cells::find_quote(const char* text, const char* end) const {
    return static_cast<const char*>(std::memchr(text, *cut_.quote, static_cast<std::size_t>(end - text)));
}

// The same for a cell with doubled quotes, each of which stands for one. `text`: what follows the first quote of the
// cell; `quote`: the next quote, which is doubled.
const char* Cells::add_with_doubled_quotes(const char* text, const char* quote, const char* end) {
    // Room for all that may follow on the line: then no text moves that was added before.
    undoubled_.reserve(undoubled_.size() + static_cast<std::size_t>(end - text) + 2);
    const std::size_t first = undoubled_.size();
    const char* part = text;
    while (quote != nullptr) {
        const bool is_doubled = quote + 1 != end && quote[1] == *cut_.quote;
        undoubled_.append(part, is_doubled ? quote + 1 : quote);
        if (!is_doubled) {
            texts_.emplace_back(undoubled_.data() + first, undoubled_.size() - first);
            undoubled_ += '\n';  // no number goes on here
            return quote + 1;
        }
        part = quote + 2;
        quote = find_quote(part, end);
    }
    return nullptr;
}

}  // namespace sparsepool::csv
