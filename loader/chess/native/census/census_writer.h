#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chess/native/census/census.h"
#include "chess/native/census/key_sample.h"
#include "chess/native/files/writer.h"
#include "chess/native/formats/position_key.h"
#include "chess/native/kernels.h"
#include "common/simd.h"

namespace sparsepool::chess {

// Counts entries instead of writing them. Not for two threads at once.
class CensusWriter final : public EntryWriter {
  public:
    // `keeps_records`: for take_records. `max_keys`: of the sample of positions.
    CensusWriter(bool keeps_records, std::size_t max_keys) : keeps_records_(keeps_records), keys_(max_keys) {
        records_.reserve(kBlock);
    }

    [[nodiscard]] std::string add(const Entry& entry) override {
        Record& record = records_.emplace_back();
        simd::kernels<Kernels>().write_record(entry, record);
        keys_.add(hash_of(key_of(entry.position, record)));
        ++entries_;
        ++length_;
        if (!keeps_records_ && records_.size() == kBlock) count_records();
        return {};
    }

    void begin_unit() override {
        end_unit();
        in_unit_ = true;
    }

    // Ends a chunk: counts the records that are not counted yet, and the length of the last unit.
    void finish() override {
        end_unit();
        count_records();
    }

    // Returns the records of the chunk that was ended last.
    [[nodiscard]] std::vector<Record> take_records() { return std::exchange(finished_records_, {}); }

    // Counts records, but not their keys.
    void add(std::span<const Record> records) {
        census_.add(records);
        entries_ += records.size();
    }

    // Adds what another writer has counted of chunks that were ended.
    void add(const CensusWriter& other) {
        census_.add(other.census_);
        keys_.add(other.keys_);
        entries_ += other.entries_;
    }

    [[nodiscard]] const Census& census() const { return census_; }
    [[nodiscard]] const KeySample& keys() const { return keys_; }

  private:
    static constexpr std::size_t kBlock = 4096;  // records counted at once, while they are in the cache

    void end_unit() {
        if (in_unit_) census_.add_length(length_);
        in_unit_ = false;
        length_ = 0;
    }

    // Counts the records that are not counted yet.
    void count_records() {
        census_.add(records_);
        if (keeps_records_) {
            finished_records_ = std::exchange(records_, {});
        } else {
            records_.clear();
        }
    }

    bool keeps_records_;
    bool in_unit_ = false;
    std::uint64_t length_ = 0;  // entries of the unit
    Census census_;
    KeySample keys_;
    std::vector<Record> records_;  // not counted yet
    std::vector<Record> finished_records_;
};

}  // namespace sparsepool::chess
