#include "rows/formats/csv/native/text/cells.h"

#include <algorithm>
#include <cstring>

namespace sparsepool::csv {

const char* Cells::split(const char* text, const char* end) {
    texts_.clear();
    begins_.clear();
    unquoted_.clear();
    if (end != text && end[-1] == '\r') --end;
    const char delimiter = cut_.delimiter;
    while (true) {
        begins_.push_back(text);
        const char* stop = text;
        if (cut_.quote && text != end && *text == *cut_.quote) {
            stop = add_quoted(text, end);
            if (stop == nullptr) return text;
            if (stop != end && *stop != delimiter) {
                reason_ = std::string("expected '") + delimiter + "' or the end of the line behind quoted text";
                return stop;
            }
        } else {
            while (stop != end && *stop != delimiter) ++stop;
            texts_.emplace_back(text, static_cast<std::size_t>(stop - text));
        }
        if (stop == end) return nullptr;
        text = stop + 1;
    }
}

// Gives back what is behind its last quote; null if that is not on the line.
const char* Cells::add_quoted(const char* text, const char* end) {
    const char quote = *cut_.quote;
    const char* part = text + 1;
    bool doubled = false;
    std::size_t first = 0;  // of unquoted_
    while (true) {
        const auto* const stop =
            static_cast<const char*>(std::memchr(part, quote, static_cast<std::size_t>(end - part)));
        if (stop == nullptr) {
            reason_ =
                "quoted text does not end on its line; text with line breaks can't be read: write them as spaces, "
                "or, if quotes are letters here, set data.rows.columns.quote = \"\"";
            return nullptr;
        }
        const bool more = stop + 1 != end && stop[1] == quote;
        if (!more && !doubled) {
            texts_.emplace_back(part, static_cast<std::size_t>(stop - part));
            return stop + 1;
        }
        if (!doubled) {
            // No later text of the line needs more room, so that none moves.
            unquoted_.reserve(unquoted_.size() + static_cast<std::size_t>(end - text) + 1);
            first = unquoted_.size();
            doubled = true;
        }
        unquoted_.append(part, stop + (more ? 1 : 0));
        if (!more) {
            texts_.emplace_back(unquoted_.data() + first, unquoted_.size() - first);
            unquoted_ += '\n';
            return stop + 1;
        }
        part = stop + 2;
    }
}

}  // namespace sparsepool::csv
