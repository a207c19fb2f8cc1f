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

std::string_view without_blanks(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

constexpr const char* kMissingAdvice =
    ": if that stands for a number that is missing, name it in data.rows.columns.missing";

// Whether programs write it where there is no value.
bool is_missing_word(std::string_view text) {
    static constexpr std::string_view kWords[] = {"null", "nan", "none", "na", "n/a", "<na>", "nil", "nat", "\\n", "-"};
    const auto small = [](char letter) { return letter >= 'A' && letter <= 'Z' ? letter + ('a' - 'A') : letter; };
    return std::ranges::any_of(kWords,
                               [&](std::string_view word) { return std::ranges::equal(text, word, {}, small); });
}

// Whether it is digits, a point and zeros, perhaps behind a minus.
bool is_float_id(std::string_view text) {
    if (text.starts_with('-')) text.remove_prefix(1);
    const std::size_t point = text.find('.');
    if (point == 0 || point == std::string_view::npos || point + 1 == text.size()) return false;
    return std::ranges::all_of(text.substr(0, point), rows::is_digit) &&
           std::ranges::all_of(text.substr(point + 1), [](char digit) { return digit == '0'; });
}

// Whether a whole number, perhaps behind a minus, is below 2^53.
bool is_exact(std::string_view digits) {
    constexpr std::uint64_t kExact = std::uint64_t{1} << 53;
    if (digits.starts_with('-')) digits.remove_prefix(1);
    std::uint64_t number = 0;
    const std::errc error = std::from_chars(digits.data(), digits.data() + digits.size(), number).ec;
    return error == std::errc{} && number < kExact;
}

// One line after the other. A method that finds a fault says where and what in `at_` and `reason_`, and gives back
// false.
class LineParser {
  public:
    LineParser(const Columns& columns, const RowShape& shape, stream::RecordBuffer& rows)
        : columns_(columns), shape_(shape), cells_(columns.cut), builder_(shape, rows) {
        for (std::size_t field = 0; field < columns.fields.size(); ++field) {
            const std::size_t count = columns.fields[field].size();
            most_ += std::min<std::size_t>(count, shape.fields[field].max_active);
            features_.resize(std::max(features_.size(), count));
        }
    }

    // The line [text, end), which is not empty, with its line feed at `end`.
    [[nodiscard]] bool parse(const char* text, const char* end) {
        if (const char* const wrong = cells_.split(text, end)) return fail(wrong, cells_.reason());
        if (cells_.size() != columns_.width) {
            return fail(nullptr, joined("expected ", columns_.width, " columns, got ", cells_.size()));
        }
        builder_.begin(most_);
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
    [[nodiscard]] const char* at() const { return at_; }  // null: the whole line
    [[nodiscard]] std::string& reason() { return reason_; }

  private:
    bool fail(const char* at, std::string reason) {
        at_ = at;
        reason_ = std::move(reason);
        return false;
    }

    [[nodiscard]] bool is_missing(std::string_view text) const {
        return std::ranges::any_of(columns_.missing, [&](const std::string& each) { return text == each; });
    }

    bool read_dense(std::size_t index) {
        if (shape_.left_out(index)) {
            builder_.dense(index, index == 0 ? 0.0F : 1.0F);
            return true;
        }
        const std::size_t column = columns_.dense[index];
        const std::string_view text = cells_[column];
        const bool never_missing = index == 0 || (index == 1 && shape_.weight);
        if (!never_missing && is_missing(text)) {
            builder_.dense(index, columns_.missing_number);
            return true;
        }
        const std::string_view digits = without_blanks(text);
        float number = 0;
        if (index == 0 && !shape_.labels.empty()) {
            const std::string wanted = rows::take_label_text(shape_, digits, number);
            if (!wanted.empty()) {
                return fail(cells_.begin_of(column), joined("expected ", wanted, "; got ", quoted(text)));
            }
            builder_.dense(index, number);
            return true;
        }
        const char* const stop = digits.empty() ? nullptr : rows::read_float(digits.data(), number);
        if (stop != digits.data() + digits.size() || stop == nullptr || !std::isfinite(number)) {
            return fail(cells_.begin_of(column),
                        joined(shape_.dense[index], ": expected a decimal number that float32 ", "can hold, got ",
                               quoted(text), !never_missing && is_missing_word(digits) ? kMissingAdvice : ""));
        }
        if (const char* wanted = index == 0 ? rows::take_label(shape_, number) : nullptr) {
            return fail(cells_.begin_of(column), joined("expected ", wanted, ", got ", quoted(text)));
        }
        if (never_missing && index == 1 && number < 0.0F) {
            return fail(cells_.begin_of(column), joined("expected a weight of 0 or more, got ", quoted(text)));
        }
        builder_.dense(index, number);
        return true;
    }

    bool read_qid(std::size_t column) {
        constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
        const std::string_view text = without_blanks(cells_[column]);
        const bool negative = !text.empty() && text.front() == '-';
        const std::size_t sign = negative || (!text.empty() && text.front() == '+') ? 1 : 0;
        const std::string_view digits = text.substr(sign);
        std::uint64_t number = 0;
        const char* const stop = digits.empty() ? nullptr : rows::read_whole(digits.data(), number);
        if (stop == nullptr || stop != digits.data() + digits.size() || number > kMost) {
            return fail(cells_.begin_of(column), joined("qid: expected a query number, a whole number below 2^63, got ",
                                                        quoted(cells_[column])));
        }
        builder_.qid(negative ? -static_cast<std::int64_t>(number) : static_cast<std::int64_t>(number));
        return true;
    }

    bool read_field(std::size_t index) {
        const std::vector<std::size_t>& columns = columns_.fields[index];
        const rows::Field& field = shape_.fields[index];
        std::size_t count = 0;
        for (std::size_t i = 0; i < columns.size(); ++i) {
            std::string_view text = cells_[columns[i]];
            if (is_missing(text)) {
                if (!columns_.missing_is_feature) continue;
                text = {};
            }
            if (columns_.float_ids_are_integers && is_float_id(text)) {
                text = text.substr(0, text.find('.'));
                if (!is_exact(text)) {
                    return fail(cells_.begin_of(columns[i]),
                                joined("expected an id below 2^53, as floats can't tell larger ones apart, got ",
                                       quoted(cells_[columns[i]])));
                }
            }
            features_[count++] = static_cast<std::uint32_t>(rows::hash_of(text, columns_.seed + i) % field.size());
        }
        const auto begin = features_.begin();
        std::sort(begin, begin + static_cast<std::ptrdiff_t>(count));
        const auto end = std::unique(begin, begin + static_cast<std::ptrdiff_t>(count));
        if (end - begin > std::int64_t{field.max_active}) {
            return fail(cells_.begin_of(columns.front()),
                        joined("expected at most ", field.max_active, " features in field '", field.name,
                               "' (data.rows.max_active), got ", end - begin));
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
    std::size_t most_ = 0;                 // features of a row
    std::vector<std::uint32_t> features_;  // of a field
    std::uint64_t rows_ = 0;
    const char* at_ = nullptr;
    std::string reason_;
};

}  // namespace

rows::ParseResult parse_lines(std::string_view text, bool begins_file, const Columns& columns, const RowShape& shape,
                              stream::RecordBuffer& rows) {
    rows::ParseResult parsed;
    LineParser parser(columns, shape, rows);
    const char* line = text.data();
    const char* const end = line + text.size();
    const std::size_t good = utf8_prefix(text);  // the line in which it ends has a fault
    if (begins_file && text.starts_with(kByteOrderMark)) line += kByteOrderMark.size();
    for (bool first = begins_file; line < end; first = false) {
        const auto* const feed =
            static_cast<const char*>(std::memchr(line, '\n', static_cast<std::size_t>(end + 1 - line)));
        const bool skipped = first && columns.cut.header;
        const bool empty = feed == line || (feed == line + 1 && *line == '\r');
        if (feed > text.data() + good) {
            const auto column = static_cast<std::uint64_t>(text.data() + good - line);
            parsed.fault = rows::TextFault{parsed.lines, column, "expected UTF-8 text"};
            break;
        }
        if (!skipped && !empty && !parser.parse(line, feed)) {
            std::optional<std::uint64_t> column;
            if (parser.at() != nullptr) column = static_cast<std::uint64_t>(parser.at() - line);
            parsed.fault = rows::TextFault{parsed.lines, column, std::move(parser.reason())};
            break;
        }
        ++parsed.lines;
        line = feed + 1;
    }
    parsed.rows = parser.rows();
    return parsed;
}

}  // namespace sparsepool::csv
