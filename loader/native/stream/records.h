#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "common/memory/growing_memory.h"

// Records one behind the other, as the stream sees them: bytes that it carries and does not look into. Those of a
// source all have one size, or each has a size of its own.
namespace sparsepool::stream {

class RecordSpan {
  public:
    RecordSpan() = default;
    RecordSpan(const std::byte* data, std::size_t count, std::size_t record_size)
        : data_(data), count_(count), record_size_(record_size) {}
    // `ends[i]`: where record i ends, behind `data`; `begin`: where the first begins.
    RecordSpan(const std::byte* data, std::size_t count, const std::uint64_t* ends, std::uint64_t begin)
        : data_(data), count_(count), ends_(ends), begin_(begin) {}

    [[nodiscard]] std::size_t size() const { return count_; }
    [[nodiscard]] bool empty() const { return count_ == 0; }

    [[nodiscard]] std::span<const std::byte> operator[](std::size_t i) const {
        if (ends_ == nullptr) return {data_ + i * record_size_, record_size_};
        const std::uint64_t begin = i == 0 ? begin_ : ends_[i - 1];
        return {data_ + begin, ends_[i] - begin};
    }

    // All bytes, from the first record's to the last one's.
    [[nodiscard]] std::span<const std::byte> bytes() const {
        if (count_ == 0) return {};
        if (ends_ == nullptr) return {data_, count_ * record_size_};
        return {data_ + begin_, ends_[count_ - 1] - begin_};
    }

    // Records of one size, as what they are.
    template <class Record>
    [[nodiscard]] std::span<const Record> as() const {
        return {reinterpret_cast<const Record*>(data_), count_};
    }

  private:
    const std::byte* data_ = nullptr;
    std::size_t count_ = 0;
    std::size_t record_size_ = 0;
    const std::uint64_t* ends_ = nullptr;
    std::uint64_t begin_ = 0;
};

// Memory for records: of a chunk, a window, or what is carried from one window to the next. Records of one size begin
// on a cache line and may be written in place; others are appended. Throws std::bad_alloc.
class RecordBuffer {
  public:
    explicit RecordBuffer(std::size_t record_size) : record_size_(record_size) {}  // 0: each has a size of its own

    [[nodiscard]] std::size_t record_size() const { return record_size_; }
    [[nodiscard]] std::size_t size() const { return record_size_ != 0 ? bytes_.size() / record_size_ : ends_.size(); }
    [[nodiscard]] std::byte* data() { return bytes_.data(); }
    [[nodiscard]] const std::byte* data() const { return bytes_.data(); }
    [[nodiscard]] std::size_t num_bytes() const { return bytes_.size(); }
    [[nodiscard]] std::uint64_t* ends() { return ends_.data(); }  // [size], of records with sizes of their own
    [[nodiscard]] const std::uint64_t* ends() const { return ends_.data(); }

    [[nodiscard]] RecordSpan records() const { return records(0, size()); }
    [[nodiscard]] RecordSpan records(std::size_t first, std::size_t count) const {
        if (record_size_ != 0) return {bytes_.data() + first * record_size_, count, record_size_};
        if (count == 0) return {};
        return {bytes_.data(), count, ends_.data() + first, first == 0 ? 0 : ends_.data()[first - 1]};
    }

    void clear() {
        bytes_.clear();
        ends_.clear();
    }

    // Records of one size, as what they are: those there, and room for `count` more, of which `grow` says how many were
    // written.
    template <class Record>
    [[nodiscard]] std::span<Record> as() {
        return {reinterpret_cast<Record*>(bytes_.data()), size()};
    }
    template <class Record>
    [[nodiscard]] Record* room(std::size_t count) {
        return reinterpret_cast<Record*>(bytes_.room(count * sizeof(Record)));
    }
    void grow(std::size_t count) { bytes_.grow(count * record_size_); }
    void shrink(std::size_t size) { bytes_.shrink(size * record_size_); }

    // A record with a size of its own.
    void append(std::span<const std::byte> record) {
        bytes_.append(record);
        const std::uint64_t end = bytes_.size();
        ends_.append({&end, 1});
    }

    // The same, written in place: room for so many bytes, and then how many the record has.
    [[nodiscard]] std::byte* room_for_bytes(std::size_t most) { return bytes_.room(most); }
    void append_written(std::size_t size) {
        bytes_.grow(size);
        const std::uint64_t end = bytes_.size();
        ends_.append({&end, 1});
    }

    void append(const RecordSpan& records) {
        if (record_size_ != 0) return bytes_.append(records.bytes());
        for (std::size_t i = 0; i < records.size(); ++i) append(records[i]);
    }

    // Leaves those out of which `wanted`, of a record's number, is false.
    template <class Wanted>
    void keep(Wanted wanted) {
        const RecordSpan all = records();
        std::size_t kept = 0;
        std::size_t bytes = 0;
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (!wanted(i)) continue;
            const std::span<const std::byte> record = all[i];  // before its end is written over
            std::memmove(bytes_.data() + bytes, record.data(), record.size());
            bytes += record.size();
            if (record_size_ == 0) ends_.data()[kept] = bytes;
            ++kept;
        }
        bytes_.shrink(bytes);
        if (record_size_ == 0) ends_.shrink(kept);
    }

    // Room for so many records, of which nothing is initialized and what was there may be lost. Of those with sizes of
    // their own only the ends; `resize_bytes` when they are known.
    void resize_to_overwrite(std::size_t count) {
        if (record_size_ != 0) return bytes_.resize_to_overwrite(count * record_size_);
        bytes_.clear();
        ends_.resize_to_overwrite(count);
    }
    void resize_bytes(std::size_t size) { bytes_.resize_to_overwrite(size); }

  private:
    std::size_t record_size_ = 0;
    GrowingMemory<std::byte> bytes_;
    GrowingMemory<std::uint64_t> ends_;
};

}  // namespace sparsepool::stream
