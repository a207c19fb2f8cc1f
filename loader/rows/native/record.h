#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "rows/native/shape.h"
#include "stream/records.h"

// The record of a row, in words of 32 bits:
//
//     dense numbers       float32 each, in the order of the shape
//     qid                 int64 in two words, if the shape has it
//     counts              uint32 for each field: how many features the row has in it
//     for each field      its features, ascending, counted from 0 within the field; in a field with values, pairs of
//                         feature and float32 value
namespace sparsepool::rows {

// Appends rows to a buffer, field after field.
class RowBuilder {
  public:
    RowBuilder(const RowShape& shape, stream::RecordBuffer& rows)
        : shape_(&shape), rows_(&rows), head_words_(shape.head_words()) {}

    // Begins a row of at most `max_features`. A row that was begun and not ended is forgotten.
    void begin(std::size_t max_features) {
        constexpr std::size_t kWord = sizeof(std::uint32_t);
        const std::size_t max_words = head_words_ + 2 * max_features;
        words_ = reinterpret_cast<std::uint32_t*>(rows_->room_for_bytes(max_words * kWord));
        next_ = words_ + head_words_;
        std::memset(words_ + shape_->counts_at(), 0, shape_->fields.size() * kWord);
    }

    void dense(std::size_t index, float value) { std::memcpy(words_ + index, &value, sizeof value); }
    void qid(std::int64_t value) { std::memcpy(words_ + shape_->qid_at(), &value, sizeof value); }

    // Adds a feature, counted from 0 within its field. Fields and features must ascend.
    void add(std::size_t field, std::uint32_t feature) {
        *next_++ = feature;
        ++count(field);
    }
    void add(std::size_t field, std::uint32_t feature, float value) {
        *next_++ = feature;
        std::memcpy(next_++, &value, sizeof value);
        ++count(field);
    }

    [[nodiscard]] std::uint32_t& count(std::size_t field) { return words_[shape_->counts_at() + field]; }

    void end() { rows_->append_written(static_cast<std::size_t>(next_ - words_) * sizeof *words_); }

  private:
    const RowShape* shape_;
    stream::RecordBuffer* rows_;
    std::size_t head_words_;
    std::uint32_t* words_ = nullptr;  // of the row that was begun
    std::uint32_t* next_ = nullptr;   // where its next feature goes
};

// Reads the record of a row.
class RowView {
  public:
    RowView(const RowShape& shape, std::span<const std::byte> record)
        : shape_(&shape), words_(reinterpret_cast<const std::uint32_t*>(record.data())) {}

    [[nodiscard]] float dense(std::size_t index) const {
        float value = 0;
        std::memcpy(&value, words_ + index, sizeof value);
        return value;
    }
    [[nodiscard]] std::int64_t qid() const {
        std::int64_t value = 0;
        std::memcpy(&value, words_ + shape_->qid_at(), sizeof value);
        return value;
    }
    [[nodiscard]] std::uint32_t count(std::size_t field) const { return words_[shape_->counts_at() + field]; }

    // The words of a field: its features, or pairs of feature and value.
    [[nodiscard]] const std::uint32_t* words(std::size_t field) const {
        const std::uint32_t* begin = words_ + shape_->head_words();
        for (std::size_t i = 0; i < field; ++i) begin += std::size_t{count(i)} * (shape_->fields[i].values ? 2 : 1);
        return begin;
    }

  private:
    const RowShape* shape_;
    const std::uint32_t* words_;
};

}  // namespace sparsepool::rows
