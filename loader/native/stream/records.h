#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "common/memory/growing_memory.h"

// Records one after another, as the stream sees them: bytes that it never looks into. The records of a source all have
// one size, or each has a size of its own.
namespace sparsepool::stream {

class RecordSpan {
  public:
    RecordSpan() = default;
    RecordSpan(const std::byte* data, std::size_t count, std::size_t record_size)
        : data_(data), count_(count), record_size_(record_size) {}
    // `ends[i]`: bytes from `data` to the end of record i; `begin`: to the beginning of the first record.
    RecordSpan(const std::byte* data, std::size_t count, const std::uint64_t* ends, std::uint64_t begin)
        : data_(data), count_(count), ends_(ends), begin_(begin) {}

    [[nodiscard]] std::size_t size() const { return count_; }
    [[nodiscard]] bool empty() const { return count_ == 0; }

    [[nodiscard]] std::span<const std::byte> operator[](std::size_t i) const {
        if (ends_ == nullptr) return {data_ + i * record_size_, record_size_};
        const std::uint64_t begin = i == 0 ? begin_ : ends_[i - 1];
        return {data_ + begin, ends_[i] - begin};
    }

    // The bytes of all records.
    [[nodiscard]] std::span<const std::byte> bytes() const {
        if (count_ == 0) return {};
        if (ends_ == nullptr) return {data_, count_ * record_size_};
        return {data_ + begin_, ends_[count_ - 1] - begin_};
    }

    // Records of one size as structures.
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

// Memory for the records of a chunk, of a window, or of the tail that is carried to the next window. Records of one
// size begin on a cache line and may be written in place; others are appended. Throws std::bad_alloc.
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

    // Records of one size as structures.
    template <class Record>
    [[nodiscard]] std::span<Record> as() {
        return {reinterpret_cast<Record*>(bytes_.data()), size()};
    }

    // Room for `count` more records at the end. Then `grow` appends those that were written to it.
    template <class Record>
    [[nodiscard]] Record* room(std::size_t count) {
        return reinterpret_cast<Record*>(bytes_.room(count * sizeof(Record)));
    }
    void grow(std::size_t count) { bytes_.grow(count * record_size_); }
    void shrink(std::size_t size) { bytes_.shrink(size * record_size_); }

    // Appends a record with a size of its own.
    void append(std::span<const std::byte> record) {
        bytes_.append(record);
        const std::uint64_t end = bytes_.size();
        ends_.append({&end, 1});
    }

    // The same in place: room for a record of at most `max_size` bytes. Then `append_written` appends the record that
    // was written to it.
    [[nodiscard]] std::byte* room_for_bytes(std::size_t max_size) { return bytes_.room(max_size); }
    void append_written(std::size_t size) {
        bytes_.grow(size);
        const std::uint64_t end = bytes_.size();
        ends_.append({&end, 1});
    }

    void append(const RecordSpan& records) {
        if (record_size_ != 0) return bytes_.append(records.bytes());
        for (std::size_t i = 0; i < records.size(); ++i) append(records[i]);
    }

    // Removes all records i for which is_retained(i) is false.
    template <class IsRetained>
    void retain(IsRetained is_retained) {
        const RecordSpan all = records();
        std::size_t num_retained = 0;
        std::size_t num_bytes = 0;
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (!is_retained(i)) continue;
            const std::span<const std::byte> record = all[i];  // before its end is overwritten
            std::memmove(bytes_.data() + num_bytes, record.data(), record.size());
            num_bytes += record.size();
            if (record_size_ == 0) ends_.data()[num_retained] = num_bytes;
            ++num_retained;
        }
        bytes_.shrink(num_bytes);
        if (record_size_ == 0) ends_.shrink(num_retained);
    }

    // Resizes to `count` records, none initialized; old records may be lost. For records with sizes of their own this
    // resizes only the ends, and `resize_bytes` their memory.
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
