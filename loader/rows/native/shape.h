#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What a row consists of, as the settings say: dense numbers, one of each a row, and lists of features.
namespace sparsepool::rows {

enum class LabelKind : std::uint8_t {
    kReal,    // any finite number
    kBinary,  // 0 or -1, which becomes 0; or 1
    kClass,   // 0, 1, ... num_classes - 1
    kNone,    // labels and weights are 0 and 1, whether there are any or not
};

// A field: features begin .. end - 1 of all. Within the field they are counted from 0.
struct Field {
    std::string name;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool values = false;  // each feature of a row has a value; else its value is 1
    std::uint32_t max_active = 0;

    [[nodiscard]] std::uint64_t size() const { return end - begin; }
};

// Fields of rows that share one table of weights: fields[begin .. end - 1] of the shape. Each of them is a bag.
struct Table {
    std::string name;
    std::size_t begin = 0;
    std::size_t end = 0;
};

struct RowShape {
    LabelKind label = LabelKind::kReal;
    std::uint32_t num_classes = 2;
    // Labels by the texts that files have in their place; empty: files have the labels themselves.
    std::map<std::string, float, std::less<>> labels;
    std::vector<std::string> dense;  // float32 each; the first is the label
    bool weight = false;             // the second is the sample's weight
    bool qid = false;                // a row has a query number, an int64
    // The query number of a svmlight line that has none; null: each line must have one.
    std::optional<std::int64_t> missing_qid;
    std::vector<Field> fields;       // in the order of their features, without overlap
    std::vector<Table> tables;       // in the order of the schema; readers need none
    std::uint64_t first_number = 0;  // number of the first feature in text formats

    // Whether that dense number is a label or weight that is not read from files: it is 0, or 1.
    [[nodiscard]] bool is_constant(std::size_t dense_index) const {
        return label == LabelKind::kNone && (dense_index == 0 || (dense_index == 1 && weight));
    }
    // Positions in a record (record.h), in words.
    [[nodiscard]] std::size_t qid_at() const { return dense.size(); }
    [[nodiscard]] std::size_t counts_at() const { return dense.size() + (qid ? 2 : 0); }
    [[nodiscard]] std::size_t head_words() const { return counts_at() + fields.size(); }
    [[nodiscard]] std::size_t max_active() const {
        std::size_t sum = 0;
        for (const Field& field : fields) sum += field.max_active;
        return sum;
    }
};

// Converts a label of a file to that of the batch. Returns null, or what labels are expected to be if it is none.
[[nodiscard]] inline const char* convert_label(const RowShape& shape, float& label) {
    switch (shape.label) {
        case LabelKind::kReal: return nullptr;
        case LabelKind::kNone: label = 0.0F; return nullptr;
        case LabelKind::kBinary:
            if (label != 0.0F && label != 1.0F && label != -1.0F) return "a label of 0, 1 or -1 (data.rows.label)";
            if (label != 1.0F) label = 0.0F;
            return nullptr;
        case LabelKind::kClass: {
            const bool is_in_range = label >= 0.0F && label < static_cast<float>(shape.num_classes);
            const bool is_class = is_in_range && static_cast<float>(static_cast<std::uint32_t>(label)) == label;
            return is_class ? nullptr : "a class number from 0 to data.rows.num_classes - 1";
        }
    }
    return nullptr;
}

// Converts the text that a file has for a label (data.rows.label_map). Returns nothing, or what is expected instead.
[[nodiscard]] inline std::string convert_label_text(const RowShape& shape, std::string_view text, float& label) {
    const auto entry = shape.labels.find(text);
    if (entry == shape.labels.end()) {
        std::string allowed;
        for (const auto& [allowed_text, _] : shape.labels) allowed += (allowed.empty() ? "" : ", ") + allowed_text;
        return "a label of data.rows.label_map, " + allowed;
    }
    label = entry->second;
    const char* const expected = convert_label(shape, label);
    return expected == nullptr ? "" : expected;
}

}  // namespace sparsepool::rows
