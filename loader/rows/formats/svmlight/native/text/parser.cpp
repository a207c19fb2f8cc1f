#include "rows/formats/svmlight/native/text/parser.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "common/utf8.h"
#include "rows/native/lines/number.h"
#include "rows/native/lines/words.h"

namespace sparsepool::svmlight {
namespace {

using rows::Field;
using rows::joined;
using rows::parse_float;
using rows::parse_integer;
using rows::RowShape;

[[nodiscard]] bool is_blank(char character) {
    return character == ' ' || (character >= '\t' && character <= '\r' && character != '\n');
}
[[nodiscard]] bool ends_part(char character) { return is_blank(character) || character == '\n' || character == '#'; }

// The part at `text` in quotes, for a message.
std::string quoted(const char* text) {
    if (*text == '\n') return "the end of the line";
    if (ends_part(*text)) return "nothing";
    std::size_t size = 0;
    while (size <= rows::kMaxQuoted && !ends_part(text[size])) ++size;
    return rows::quoted({text, size});
}

// Parses lines, one after another. A method that reads a part of a line returns its end. If it finds a fault it returns
// null, and writes where and what to `fault_position_` and `reason_`.
class LineParser {
  public:
    // `limit`: the end of the text.
    LineParser(const RowShape& shape, const char* limit, stream::RecordBuffer& rows)
        : shape_(shape), limit_(limit), builder_(shape, rows), max_active_(shape.max_active()) {}

    // Parses the line [text, end), whose line feed is at `end`. False at a fault.
    [[nodiscard]] bool parse(const char* text, const char* end) {
        text = skip_blanks(text);
        if (*text == '\n' || *text == '#') return true;
        constexpr std::ptrdiff_t kMinFeatureBytes = 4;  // " 1:1"
        builder_.begin(std::min(static_cast<std::size_t>((end - text) / kMinFeatureBytes), max_active_));
        text = read_label(text);
        if (text == nullptr) return false;
        text = read_qid(skip_blanks(text));
        if (text == nullptr) return false;
        if (!read_features(text)) return false;
        builder_.end();
        ++rows_;
        return true;
    }

    [[nodiscard]] std::uint64_t rows() const { return rows_; }
    [[nodiscard]] const char* fault_position() const { return fault_position_; }
    [[nodiscard]] std::string& reason() { return reason_; }

  private:
    [[nodiscard]] static const char* skip_blanks(const char* text) {
        while (is_blank(*text)) ++text;
        return text;
    }

    template <class... Parts>
    const char* fail(const char* position, const Parts&... reason) {
        fault_position_ = position;
        reason_ = joined(reason...);
        return nullptr;
    }

    // Reads a number that ends its part, or that `separator` follows. `noun`: for messages.
    const char* read_number(const char* text, const char* noun, float& number, char separator = ' ') {
        const char* const end = parse_float(text, number);
        const bool is_number = end != nullptr && (ends_part(*end) || *end == separator);
        if (!is_number) return fail(text, "expected ", noun, ", a decimal number, got ", quoted(text));
        if (!std::isfinite(number)) return fail(text, "expected ", noun, " that float32 holds, got ", quoted(text));
        return end;
    }

    const char* read_label(const char* text) {
        if (shape_.is_constant(0) && !shape_.weight && begins_with_feature(text)) {
            builder_.dense(0, 0.0F);
            return text;
        }
        float label = 0;
        if (!shape_.labels.empty() && !shape_.is_constant(0)) return read_label_text(text);
        const char* end = read_number(text, "a label", label, shape_.weight ? ':' : ' ');
        if (end == nullptr) return nullptr;
        const char* const expected = convert_label(shape_, label);
        if (expected != nullptr) return fail(text, "expected ", expected, ", got ", quoted(text));
        builder_.dense(0, label);
        return read_weight(end);
    }

    const char* read_label_text(const char* text) {
        const char* end = text;
        while (!ends_part(*end) && !(shape_.weight && *end == ':')) ++end;
        float label = 0;
        const std::string expected = rows::convert_label_text(shape_, {text, end}, label);
        if (!expected.empty()) return fail(text, "expected ", expected, "; got ", quoted(text));
        builder_.dense(0, label);
        return read_weight(end);
    }

    // Reads ":WEIGHT" at the end of a label, if it is there.
    const char* read_weight(const char* label_end) {
        const char* end = label_end;
        float weight = 1.0F;
        if (*label_end == ':') {
            const char* const begin = label_end + 1;
            end = read_number(begin, "a weight", weight);
            if (end == nullptr) return nullptr;
            if (weight < 0.0F) return fail(begin, "expected a weight of 0 or more, got ", quoted(begin));
        }
        if (shape_.weight) builder_.dense(1, shape_.is_constant(1) ? 1.0F : weight);
        return end;
    }

    // Whether the line has no label: it begins with NUMBER:VALUE.
    [[nodiscard]] static bool begins_with_feature(const char* text) {
        while (*text != ':' && !ends_part(*text)) ++text;
        return *text == ':';
    }

    // Reads "qid:NUMBER" and the blanks after it, if it is there.
    const char* read_qid(const char* text) {
        std::optional<std::int64_t> qid = shape_.missing_qid;
        if (*text == 'q') {
            text = parse_qid(text, qid);
            if (text == nullptr) return nullptr;
            text = skip_blanks(text);
        }
        if (!shape_.qid) return text;
        if (!qid) return fail(text, "expected qid:NUMBER behind the label (data.rows.qid), got ", quoted(text));
        builder_.qid(*qid);
        return text;
    }

    const char* parse_qid(const char* text, std::optional<std::int64_t>& qid) {
        constexpr std::string_view kPrefix = "qid:";
        const char* const begin = text;
        for (const char character : kPrefix) {
            if (*text != character) return fail(begin, "expected a feature number, got ", quoted(begin));
            ++text;
        }
        constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
        const bool is_negative = *text == '-';
        const char* const digits = text + (is_negative ? 1 : 0);
        std::uint64_t number = 0;
        const char* const end = parse_integer(digits, number);
        if (end == digits || !ends_part(*end) || number > kMax) {
            return fail(text, "expected a query number, a whole number below 2^63, got ", quoted(text));
        }
        qid = is_negative ? -static_cast<std::int64_t>(number) : static_cast<std::int64_t>(number);
        return end;
    }

    // Reads NUMBER:VALUE up to the end of the line or a comment. False at a fault.
    bool read_features(const char* text) {
        const Field* const fields = shape_.fields.data();
        const std::size_t num_fields = shape_.fields.size();
        std::size_t field = 0;
        std::uint64_t min_number = shape_.first_number;  // of the next feature
        for (; *text != '\n' && *text != '#'; text = skip_blanks(text)) {
            const char* const begin = text;
            std::uint64_t number = 0;
            text = parse_integer(text, limit_, number);
            if (text == begin || *text != ':') return refuse_no_feature(begin, text);
            if (number < min_number) return refuse_order(begin, number, min_number);
            min_number = number + 1;
            ++text;
            const char* const value_text = text;
            float value = 1.0F;
            if (*text == '1' && ends_part(text[1])) {  // the most frequent value
                ++text;
            } else {
                text = read_number(text, "a value", value);
                if (text == nullptr) return false;
            }
            number -= shape_.first_number;
            while (field < num_fields && number >= fields[field].end) ++field;
            if (field == num_fields || number < fields[field].begin) return refuse_no_field(begin);
            const auto feature = static_cast<std::uint32_t>(number - fields[field].begin);
            if (!fields[field].values && value == 0.0F) continue;  // not active
            if (builder_.count(field) == fields[field].max_active) return refuse_more_features(begin, fields[field]);
            if (fields[field].values) {
                builder_.add(field, feature, value);
            } else if (value == 1.0F) {
                builder_.add(field, feature);
            } else {
                fail(value_text, "expected a value of 1 or 0, since field '", fields[field].name,
                     "' has no values (data.rows.values), got ", quoted(value_text));
                return false;
            }
        }
        return true;
    }

    // Each of these writes a fault of the feature at `begin` and returns false.

    bool refuse_no_feature(const char* begin, const char* end) {
        if (end == begin || !ends_part(*end)) {
            fail(begin, "expected a feature number, got ", quoted(begin));
        } else {
            fail(end, "expected ':' and a value behind feature number ", quoted(begin));
        }
        return false;
    }

    bool refuse_order(const char* begin, std::uint64_t number, std::uint64_t min_number) {
        if (number == 0 && min_number == 1 && shape_.first_number == 1) {
            fail(begin, "expected a feature number from 1 on, got 0: data.rows.zero_based = true counts from 0");
        } else {
            fail(begin, "expected a feature number above the one before it, ", min_number - 1, ", got ", quoted(begin));
        }
        return false;
    }

    bool refuse_no_field(const char* begin) {
        std::string ranges;
        for (const Field& field : shape_.fields) {
            ranges += joined(ranges.empty() ? "" : ", ", field.begin + shape_.first_number, " to ",
                             field.end - 1 + shape_.first_number);
        }
        fail(begin, "expected a feature number of a field, ", ranges, " (data.rows.fields, data.rows.zero_based), got ",
             quoted(begin));
        return false;
    }

    bool refuse_more_features(const char* begin, const Field& field) {
        fail(begin, "expected at most ", field.max_active, " features in field '", field.name,
             "' (data.rows.max_active), got one more: ", quoted(begin));
        return false;
    }

    const RowShape& shape_;
    const char* limit_;  // end of the text
    rows::RowBuilder builder_;
    std::size_t max_active_;
    std::uint64_t rows_ = 0;
    const char* fault_position_ = nullptr;
    std::string reason_;
};

}  // namespace

// Parses line by line. Each line may begin with a byte order mark: files may be put together of others.
rows::ParseResult parse_lines(std::string_view text, const RowShape& shape, stream::RecordBuffer& rows) {
    rows::ParseResult parsed;
    const char* line = text.data();
    const char* const end = line + text.size();
    LineParser parser(shape, end, rows);
    while (line < end) {
        const auto* const feed =
            static_cast<const char*>(std::memchr(line, '\n', static_cast<std::size_t>(end + 1 - line)));
        if (std::string_view(line, feed).starts_with(kByteOrderMark)) line += kByteOrderMark.size();
        if (!parser.parse(line, feed)) {
            const auto column = static_cast<std::uint64_t>(parser.fault_position() - line);
            parsed.fault = rows::TextFault{parsed.lines, column, parser.reason()};
            break;
        }
        ++parsed.lines;
        line = feed + 1;
    }
    parsed.rows = parser.rows();
    return parsed;
}

}  // namespace sparsepool::svmlight
