#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What a row has, as the settings say: numbers that each row has one of, and lists of feature numbers.
namespace sparsepool::rows {

enum class LabelKind : std::uint8_t {
    kReal,    // any finite number
    kBinary,  // 0 or -1, which becomes 0; or 1
    kClass,   // 0, 1, ... num_classes - 1
    kNone,    // labels and weights are 0 and 1, whether there are any or not
};

// Numbers begin .. end - 1 of all features, which count from 0 within the field.
struct Field {
    std::string name;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool values = false;  // each feature of a row has a value; else that is 1
    std::uint32_t max_active = 0;

    [[nodiscard]] std::uint64_t size() const { return end - begin; }
};

// A field of batches: the fields of rows that share a table, fields[begin .. end - 1] of the shape. Each is a bag.
struct Table {
    std::string name;
    std::size_t begin = 0;
    std::size_t end = 0;
};

struct RowShape {
    LabelKind label = LabelKind::kReal;
    std::uint32_t num_classes = 2;
    // By what a file has in their place; empty: it has the labels.
    std::map<std::string, float, std::less<>> labels;
    std::vector<std::string> dense;  // float32 each; the first is the label
    bool weight = false;             // the second is the sample's weight
    bool qid = false;                // an int64 besides
    // Of a line of svmlight text that has none; null: it must have one.
    std::optional<std::int64_t> missing_qid;
    std::vector<Field> fields;       // in the order of their numbers, which they share with no other
    std::vector<Table> tables;       // in the order of the schema; readers need none
    std::uint64_t first_number = 0;  // that text formats give the first feature

    // Whether that number of a row is a label or a weight, and neither is read.
    [[nodiscard]] bool left_out(std::size_t index) const {
        return label == LabelKind::kNone && (index == 0 || (index == 1 && weight));
    }
    [[nodiscard]] std::size_t qid_at() const { return dense.size(); }  // word of a record (record.h)
    [[nodiscard]] std::size_t counts_at() const { return dense.size() + (qid ? 2 : 0); }
    [[nodiscard]] std::size_t head_words() const { return counts_at() + fields.size(); }
    [[nodiscard]] std::size_t max_active() const {
        std::size_t sum = 0;
        for (const Field& field : fields) sum += field.max_active;
        return sum;
    }
};

// What is wrong with a label of that kind, which is then made what the batch has; null if nothing is.
[[nodiscard]] inline const char* take_label(const RowShape& shape, float& label) {
    switch (shape.label) {
        case LabelKind::kReal: return nullptr;
        case LabelKind::kNone: label = 0.0F; return nullptr;
        case LabelKind::kBinary:
            if (label != 0.0F && label != 1.0F && label != -1.0F) return "a label of 0, 1 or -1 (data.rows.label)";
            if (label != 1.0F) label = 0.0F;
            return nullptr;
        case LabelKind::kClass: {
            const bool known = label >= 0.0F && label < static_cast<float>(shape.num_classes) &&
                               static_cast<float>(static_cast<std::uint32_t>(label)) == label;
            return known ? nullptr : "a class number from 0 to data.rows.num_classes - 1";
        }
    }
    return nullptr;
}

// The label that a file means by that text. What is wrong, if it means none; else it is empty.
[[nodiscard]] inline std::string take_label_text(const RowShape& shape, std::string_view text, float& label) {
    const auto found = shape.labels.find(text);
    if (found == shape.labels.end()) {
        std::string known;
        for (const auto& [each, _] : shape.labels) known += (known.empty() ? "" : ", ") + each;
        return "a label of data.rows.label_map, " + known;
    }
    label = found->second;
    const char* const wanted = take_label(shape, label);
    return wanted == nullptr ? "" : wanted;
}

}  // namespace sparsepool::rows
