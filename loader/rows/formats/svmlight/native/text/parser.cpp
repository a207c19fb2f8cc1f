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
using rows::read_float;
using rows::read_whole;
using rows::RowShape;

[[nodiscard]] bool is_blank(char character) {
    return character == ' ' || (character >= '\t' && character <= '\r' && character != '\n');
}
[[nodiscard]] bool ends_part(char character) { return is_blank(character) || character == '\n' || character == '#'; }

// The part at `text`, for a message.
std::string quoted(const char* text) {
    if (ends_part(*text)) return *text == '\n' ? "the end of the line" : "nothing";
    std::size_t size = 0;
    while (size <= rows::kMostQuoted && !ends_part(text[size])) ++size;
    return rows::quoted({text, size});
}

// One line after the other. A method that finds a fault says where and what in `at_` and `reason_`, and gives back
// null; else it gives back where it has come to.
class LineParser {
  public:
    // `limit`: the end of the text.
    LineParser(const RowShape& shape, const char* limit, stream::RecordBuffer& rows)
        : shape_(shape), limit_(limit), builder_(shape, rows), max_active_(shape.max_active()) {}

    // The line [text, end), with its line feed at `end`. False at a fault.
    [[nodiscard]] bool parse(const char* text, const char* end) {
        text = skip_blanks(text);
        if (*text == '\n' || *text == '#') return true;
        constexpr std::ptrdiff_t kShortest = 4;  // bytes of a feature: " 1:1"
        builder_.begin(std::min(static_cast<std::size_t>((end - text) / kShortest), max_active_));
        text = read_label(text);
        if (text != nullptr) text = read_qid(skip_blanks(text));
        if (text == nullptr || read_features(text) == nullptr) return false;
        builder_.end();
        ++rows_;
        return true;
    }

    [[nodiscard]] std::uint64_t rows() const { return rows_; }
    [[nodiscard]] const char* at() const { return at_; }
    [[nodiscard]] std::string& reason() { return reason_; }

  private:
    [[nodiscard]] static const char* skip_blanks(const char* text) {
        while (is_blank(*text)) ++text;
        return text;
    }

    template <class... Words>
    const char* fail(const char* at, const Words&... words) {
        at_ = at;
        reason_ = joined(words...);
        return nullptr;
    }

    // A number that ends its part, or is followed by `separator`.
    const char* read_number(const char* text, const char* what, float& number, char separator = ' ') {
        const char* const end = read_float(text, number);
        const bool whole = end != nullptr && (ends_part(*end) || *end == separator);
        if (!whole) return fail(text, "expected ", what, ", a decimal number, got ", quoted(text));
        if (!std::isfinite(number)) return fail(text, "expected ", what, " that float32 holds, got ", quoted(text));
        return end;
    }

    const char* read_label(const char* text) {
        if (shape_.left_out(0) && !shape_.weight && begins_with_feature(text)) {
            builder_.dense(0, 0.0F);
            return text;
        }
        float label = 0;
        if (!shape_.labels.empty() && !shape_.left_out(0)) return read_label_text(text);
        const char* end = read_number(text, "a label", label, shape_.weight ? ':' : ' ');
        if (end == nullptr) return nullptr;
        if (const char* wanted = take_label(shape_, label))
            return fail(text, "expected ", wanted, ", got ", quoted(text));
        builder_.dense(0, label);
        return read_weight(end);
    }

    const char* read_label_text(const char* text) {
        const char* end = text;
        while (!ends_part(*end) && !(shape_.weight && *end == ':')) ++end;
        float label = 0;
        const std::string wanted = rows::take_label_text(shape_, {text, end}, label);
        if (!wanted.empty()) return fail(text, "expected ", wanted, "; got ", quoted(text));
        builder_.dense(0, label);
        return read_weight(end);
    }

    // Behind a label.
    const char* read_weight(const char* end) {
        float weight = 1.0F;
        if (*end == ':') {
            const char* const begin = end + 1;
            end = read_number(begin, "a weight", weight);
            if (end == nullptr) return nullptr;
            if (weight < 0.0F) return fail(begin, "expected a weight of 0 or more, got ", quoted(begin));
        }
        if (shape_.weight) builder_.dense(1, shape_.left_out(1) ? 1.0F : weight);
        return end;
    }

    // Rather than with a label: a line without one may.
    [[nodiscard]] static bool begins_with_feature(const char* text) {
        while (*text != ':' && !ends_part(*text)) ++text;
        return *text == ':';
    }

    const char* read_qid(const char* text) {
        std::optional<std::int64_t> qid = shape_.missing_qid;
        if (*text == 'q') {
            constexpr std::string_view kName = "qid:";
            const char* const begin = text;
            for (const char character : kName) {
                if (*text++ != character) return fail(begin, "expected a feature number, got ", quoted(begin));
            }
            const bool negative = *text == '-';
            std::uint64_t number = 0;
            const char* const digits = text + (negative ? 1 : 0);
            const char* const end = read_whole(digits, number);
            constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
            if (end == digits || !ends_part(*end) || number > kMost) {
                return fail(text, "expected a query number, a whole number below 2^63, got ", quoted(text));
            }
            qid = negative ? -static_cast<std::int64_t>(number) : static_cast<std::int64_t>(number);
            text = skip_blanks(end);
        }
        if (!shape_.qid) return text;
        if (!qid) return fail(text, "expected qid:NUMBER behind the label (data.rows.qid), got ", quoted(text));
        builder_.qid(*qid);
        return text;
    }

    const char* read_features(const char* text) {
        const Field* const fields = shape_.fields.data();
        const std::size_t num_fields = shape_.fields.size();
        std::size_t field = 0;
        std::uint64_t least = shape_.first_number;  // of the next number
        for (; *text != '\n' && *text != '#'; text = skip_blanks(text)) {
            const char* const begin = text;
            std::uint64_t number = 0;
            text = read_whole(text, limit_, number);
            if (text == begin || *text != ':') return not_a_feature(begin, text);
            if (number < least) return not_larger(begin, number, least);
            least = number + 1;
            float value = 1.0F;
            const char* const written = ++text;
            if (*text == '1' && ends_part(text[1])) {
                ++text;
            } else {
                text = read_number(text, "a value", value);
                if (text == nullptr) return nullptr;
            }
            number -= shape_.first_number;
            while (field < num_fields && number >= fields[field].end) ++field;
            if (field == num_fields || number < fields[field].begin) return in_no_field(begin);
            const auto feature = static_cast<std::uint32_t>(number - fields[field].begin);
            if (!fields[field].values && value == 0.0F) continue;  // not active
            if (builder_.count(field) == fields[field].max_active) return too_many(begin, fields[field]);
            if (fields[field].values) {
                builder_.add(field, feature, value);
            } else if (value == 1.0F) {
                builder_.add(field, feature);
            } else {
                return fail(written, "expected a value of 1 or 0, since field '", fields[field].name,
                            "' has no values (data.rows.values), got ", quoted(written));
            }
        }
        return text;
    }

    const char* not_a_feature(const char* begin, const char* end) {
        if (end == begin || !ends_part(*end)) return fail(begin, "expected a feature number, got ", quoted(begin));
        return fail(end, "expected ':' and a value behind feature number ", quoted(begin));
    }

    const char* not_larger(const char* begin, std::uint64_t number, std::uint64_t least) {
        if (number == 0 && least == 1 && shape_.first_number == 1) {
            return fail(begin, "expected a feature number from 1 on, got 0: data.rows.zero_based = true counts from 0");
        }
        return fail(begin, "expected a feature number above the one before it, ", least - 1, ", got ", quoted(begin));
    }

    const char* in_no_field(const char* begin) {
        std::string ranges;
        for (const Field& field : shape_.fields) {
            ranges += joined(ranges.empty() ? "" : ", ", field.begin + shape_.first_number, " to ",
                             field.end - 1 + shape_.first_number);
        }
        return fail(begin, "expected a feature number of a field, ", ranges,
                    " (data.rows.fields, data.rows.zero_based), got ", quoted(begin));
    }

    const char* too_many(const char* begin, const Field& field) {
        return fail(begin, "expected at most ", field.max_active, " features in field '", field.name,
                    "' (data.rows.max_active), got one more: ", quoted(begin));
    }

    const RowShape& shape_;
    const char* limit_;
    rows::RowBuilder builder_;
    std::size_t max_active_;
    std::uint64_t rows_ = 0;
    const char* at_ = nullptr;
    std::string reason_;
};

}  // namespace

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
            parsed.fault =
                rows::TextFault{parsed.lines, static_cast<std::uint64_t>(parser.at() - line), parser.reason()};
            break;
        }
        ++parsed.lines;
        line = feed + 1;
    }
    parsed.rows = parser.rows();
    return parsed;
}

}  // namespace sparsepool::svmlight
