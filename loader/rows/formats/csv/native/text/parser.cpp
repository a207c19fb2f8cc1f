#include "rows/formats/csv/native/text/parser.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <system_error>

#include "common/utf8.h"
#include "rows/formats/csv/native/text/cells.h"
#include "rows/native/feature_hash.h"
#include "rows/native/lines/number.h"
#include "rows/native/lines/words.h"
#include "rows/native/record.h"

namespace sparsepool::csv {
namespace {

using rows::joined;
using rows::quoted;
using rows::RowShape;

std::string_view strip_blanks(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

constexpr const char* kMissingAdvice =
    ": if that stands for a number that is missing, name it in data.rows.columns.missing";

// Whether the text is one that programs write where there is no value, in capital or small letters.
bool is_missing_marker(std::string_view text) {
    static constexpr std::string_view kMarkers[] = {"null", "nan", "none", "na",  "n/a",
                                                    "<na>", "nil", "nat",  "\\n", "-"};
    const auto to_lower = [](char letter) { return letter >= 'A' && letter <= 'Z' ? letter + ('a' - 'A') : letter; };
    return std::ranges::any_of(kMarkers,
                               [&](std::string_view marker) { return std::ranges::equal(text, marker, {}, to_lower); });
}

// Whether the text is an integer that was written as a float: [-] digits, a point and zeros.
bool is_float_id(std::string_view text) {
    if (text.starts_with('-')) text.remove_prefix(1);
    const std::size_t point = text.find('.');
    if (point == 0 || point == std::string_view::npos || point + 1 == text.size()) return false;
    return std::ranges::all_of(text.substr(0, point), rows::is_digit) &&
           std::ranges::all_of(text.substr(point + 1), [](char digit) { return digit == '0'; });
}

// Whether a double holds the integer [-] digits exactly: it is below 2^53.
bool is_exact_in_double(std::string_view digits) {
    constexpr std::uint64_t kLimit = std::uint64_t{1} << 53;
    if (digits.starts_with('-')) digits.remove_prefix(1);
    std::uint64_t number = 0;
    const std::errc error = std::from_chars(digits.data(), digits.data() + digits.size(), number).ec;
    return error == std::errc{} && number < kLimit;
}

// Parses a finite number. False if the text is something else.
bool parse_finite(std::string_view text, float& number) {
    if (text.empty()) return false;
    const char* const end = rows::parse_float(text.data(), number);
    return end == text.data() + text.size() && std::isfinite(number);
}

// Parses lines, one after another. A method that finds a fault writes where and what to `fault_position_` and
// `reason_`, and returns false.
class LineParser {
  public:
    LineParser(const Columns& columns, const RowShape& shape, stream::RecordBuffer& rows)
        : columns_(columns), shape_(shape), cells_(columns.cut), builder_(shape, rows) {
        for (std::size_t field = 0; field < columns.fields.size(); ++field) {
            const std::size_t count = columns.fields[field].size();
            max_features_ += std::min<std::size_t>(count, shape.fields[field].max_active);
            features_.resize(std::max(features_.size(), count));
        }
    }

    // Parses the line [text, end), which is not empty. Its line feed is at `end`.
    [[nodiscard]] bool parse(const char* text, const char* end) {
        const char* const fault = cells_.split(text, end);
        if (fault != nullptr) return fail(fault, cells_.reason());
        if (cells_.size() != columns_.width) {
            return fail(nullptr, joined("expected ", columns_.width, " columns, got ", cells_.size()));
        }
        builder_.begin(max_features_);
        for (std::size_t i = 0; i < columns_.dense.size(); ++i) {
            if (!read_dense(i)) return false;
        }
        if (columns_.qid && !read_qid(*columns_.qid)) return false;
        for (std::size_t field = 0; field < columns_.fields.size(); ++field) {
            if (!read_field(field)) return false;
        }
        builder_.end();
        ++rows_;
        return true;
    }

    [[nodiscard]] std::uint64_t rows() const { return rows_; }
    [[nodiscard]] const char* fault_position() const { return fault_position_; }  // null: the fault is of the full line
    [[nodiscard]] std::string& reason() { return reason_; }

  private:
    bool fail(const char* position, std::string reason) {
        fault_position_ = position;
        reason_ = std::move(reason);
        return false;
    }

    bool fail_in(std::size_t column, std::string reason) { return fail(cells_.begin_of(column), std::move(reason)); }

    [[nodiscard]] bool is_missing(std::string_view text) const {
        return std::ranges::any_of(columns_.missing, [&](const std::string& missing) { return text == missing; });
    }

    // Reads a dense number: the label (0), the weight (1, if rows have one), or another column.
    bool read_dense(std::size_t index) {
        if (shape_.is_constant(index)) {
            builder_.dense(index, index == 0 ? 0.0F : 1.0F);
            return true;
        }
        const std::size_t column = columns_.dense[index];
        const std::string_view text = cells_[column];
        const bool is_label = index == 0;
        const bool is_weight = index == 1 && shape_.weight;
        const bool may_be_missing = !is_label && !is_weight;
        if (may_be_missing && is_missing(text)) {
            builder_.dense(index, columns_.missing_number);
            return true;
        }
        const std::string_view stripped = strip_blanks(text);
        float number = 0;
        if (is_label && !shape_.labels.empty()) {
            const std::string expected = rows::convert_label_text(shape_, stripped, number);
            if (!expected.empty()) return fail_in(column, joined("expected ", expected, "; got ", quoted(text)));
            builder_.dense(index, number);
            return true;
        }
        if (!parse_finite(stripped, number)) {
            const char* const advice = may_be_missing && is_missing_marker(stripped) ? kMissingAdvice : "";
            return fail_in(column,
                           joined(shape_.dense[index], ": expected a decimal number that float32 can hold, got ",
                                  quoted(text), advice));
        }
        if (is_label) {
            const char* const expected = rows::convert_label(shape_, number);
            if (expected != nullptr) return fail_in(column, joined("expected ", expected, ", got ", quoted(text)));
        }
        if (is_weight && number < 0.0F) {
            return fail_in(column, joined("expected a weight of 0 or more, got ", quoted(text)));
        }
        builder_.dense(index, number);
        return true;
    }

    bool read_qid(std::size_t column) {
        constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
        std::string_view digits = strip_blanks(cells_[column]);
        const bool is_negative = digits.starts_with('-');
        if (is_negative || digits.starts_with('+')) digits.remove_prefix(1);
        std::uint64_t number = 0;
        const char* const end = digits.empty() ? nullptr : rows::parse_integer(digits.data(), number);
        if (end == nullptr || end != digits.data() + digits.size() || number > kMax) {
            return fail_in(column, joined("qid: expected a query number, a whole number below 2^63, got ",
                                          quoted(cells_[column])));
        }
        const auto qid = static_cast<std::int64_t>(number);
        builder_.qid(is_negative ? -qid : qid);
        return true;
    }

    // Reads the categories of a field, one a column, and adds their features.
    bool read_field(std::size_t index) {
        const std::vector<std::size_t>& columns = columns_.fields[index];
        const rows::Field& field = shape_.fields[index];
        std::size_t count = 0;
        for (std::size_t i = 0; i < columns.size(); ++i) {
            std::string_view category = cells_[columns[i]];
            if (is_missing(category)) {
                if (!columns_.missing_is_feature) continue;
                category = {};
            }
            if (columns_.float_ids_are_integers && is_float_id(category)) {
                category = category.substr(0, category.find('.'));
                if (!is_exact_in_double(category)) {
                    return fail_in(columns[i],
                                   joined("expected an id below 2^53, as floats can't tell larger ones apart, got ",
                                          quoted(cells_[columns[i]])));
                }
            }
            const std::uint64_t hash = rows::hash_of(category, columns_.seed + i);
            features_[count++] = static_cast<std::uint32_t>(hash % field.size());
        }
        const auto begin = features_.begin();
        std::sort(begin, begin + static_cast<std::ptrdiff_t>(count));
        const auto end = std::unique(begin, begin + static_cast<std::ptrdiff_t>(count));
        if (end - begin > std::int64_t{field.max_active}) {
            return fail_in(columns.front(), joined("expected at most ", field.max_active, " features in field '",
                                                   field.name, "' (data.rows.max_active), got ", end - begin));
        }
        for (auto feature = begin; feature != end; ++feature) {
            if (field.values) {
                builder_.add(index, *feature, 1.0F);
            } else {
                builder_.add(index, *feature);
            }
        }
        return true;
    }

    const Columns& columns_;
    const RowShape& shape_;
    Cells cells_;
    rows::RowBuilder builder_;
    std::size_t max_features_ = 0;         // of a row
    std::vector<std::uint32_t> features_;  // scratch memory for one field
    std::uint64_t rows_ = 0;
    const char* fault_position_ = nullptr;
    std::string reason_;
};

}  // namespace

// Parses line by line, without the header, up to the first line that is wrong or not UTF-8.
rows::ParseResult parse_lines(std::string_view text, bool begins_file, const Columns& columns, const RowShape& shape,
                              stream::RecordBuffer& rows) {
    rows::ParseResult parsed;
    LineParser parser(columns, shape, rows);
    const char* line = text.data();
    const char* const end = line + text.size();
    const char* const utf8_end = text.data() + utf8_prefix(text);  // the line in which this lies has a fault
    if (begins_file && text.starts_with(kByteOrderMark)) line += kByteOrderMark.size();
    bool is_header = begins_file && columns.cut.header;
    while (line < end) {
        const auto* const feed =
            static_cast<const char*>(std::memchr(line, '\n', static_cast<std::size_t>(end + 1 - line)));
        const bool is_empty = feed == line || (feed == line + 1 && *line == '\r');
        if (feed > utf8_end) {
            const auto column = static_cast<std::uint64_t>(utf8_end - line);
            parsed.fault = rows::TextFault{parsed.lines, column, "expected UTF-8 text"};
            break;
        }
        if (!is_header && !is_empty && !parser.parse(line, feed)) {
            std::optional<std::uint64_t> column;
            if (parser.fault_position() != nullptr) column = static_cast<std::uint64_t>(parser.fault_position() - line);
            parsed.fault = rows::TextFault{parsed.lines, column, std::move(parser.reason())};
            break;
        }
        is_header = false;
        ++parsed.lines;
        line = feed + 1;
    }
    parsed.rows = parser.rows();
    return parsed;
}

}  // namespace sparsepool::csv
