#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "chess/native/batch/writer.h"
#include "common/simd.h"
#include "entries.h"

// Builds a batch into memory of exactly a slot's size and checks it against the records.
namespace sparsepool::fuzz {

// The set that a number stands for; king buckets where there is a choice.
inline std::shared_ptr<const chess::FeatureSet> some_feature_set(std::uint64_t number) {
    const auto names = chess::feature_set_names();
    const std::string& name = names[number % names.size()];
    chess::FeatureSettings settings;
    if (name.starts_with("chess768") && (number / names.size() % 2 == 0 || name.ends_with('^'))) {
        settings.king_buckets.resize(number / names.size() % 3 == 0 ? 64 : 32);
        for (std::size_t i = 0; i < settings.king_buckets.size(); ++i) {
            settings.king_buckets[i] = static_cast<std::uint8_t>(i % 10);
        }
    }
    return chess::make_feature_set(name, settings);
}

// Eight, as Stockfish has them.
inline chess::OutputBuckets output_buckets() {
    std::array<std::uint8_t, chess::kMaxPieces + 1> by_pieces{};
    for (std::uint8_t pieces = 1; pieces <= chess::kMaxPieces; ++pieces) {
        by_pieces[pieces] = static_cast<std::uint8_t>((pieces - 1) / 4);
    }
    return chess::make_output_buckets(by_pieces);
}

// The table as loader/stream/schema.py makes it: arrays one behind the other, each at a multiple of 64.
inline std::map<std::string, batch::Region> region_table(std::uint64_t batch_size, const chess::FeatureSet& set,
                                                         std::uint64_t& slot_bytes) {
    const std::uint64_t bags = 2 * batch_size;
    const std::uint64_t active = bags * set.max_active;
    const std::uint64_t touched = std::min<std::uint64_t>(active, set.num_inputs);
    const std::uint64_t number = set.has_32bit_indices() ? 4 : 2;
    const std::uint64_t bag = bags > 1U << 16 ? 4 : 2;
    std::map<std::string, batch::Region> table;
    slot_bytes = 0;
    const auto add = [&](const char* name, std::uint64_t count, std::uint64_t item_size) {
        table[name] = {slot_bytes, count, item_size};
        slot_bytes += (count * item_size + 63) / 64 * 64;
    };
    add("header", 3, 8);
    add("bucket_offsets", output_buckets().count + 1, 4);
    add("score", batch_size, 2);
    add("result", batch_size, 1);
    add("ply", batch_size, 2);
    add("piece_count", batch_size, 1);
    add("side_to_move", batch_size, 1);
    add("features.offsets", bags + 1, 4);
    add("features.features", active, number);
    add("features.touched", touched, number);
    add("features.touched_offsets", touched + 1, 4);
    add("features.bags", active, bag);
    return table;
}

// Rows and columns say the same; each bag has its piece's features, each once.
template <class Number, class Bag>
void check_rows_and_columns(std::byte* slot, const chess::Layout& layout, const chess::FeatureSet& set) {
    const auto* header = batch::array_in<std::uint64_t>(slot, layout.header);
    const auto* offsets = batch::array_in<std::uint32_t>(slot, layout.offsets);
    const auto* numbers = batch::array_in<Number>(slot, layout.features);
    const auto* touched = batch::array_in<Number>(slot, layout.touched);
    const auto* touched_offsets = batch::array_in<std::uint32_t>(slot, layout.touched_offsets);
    const auto* bags = batch::array_in<Bag>(slot, layout.bags);
    const auto* pieces = batch::array_in<std::uint8_t>(slot, layout.piece_count);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> expected;  // (feature, bag)
    for (std::uint32_t bag = 0; bag < layout.num_bags(); ++bag) {
        const std::uint32_t count = pieces[bag % layout.batch_size];
        const std::uint32_t size = offsets[bag + 1] - offsets[bag];
        const auto pieces_alone = static_cast<std::uint32_t>(count * set.piece_inputs.size());
        FUZZ_REQUIRE(set.has_relations() ? size >= pieces_alone && size <= set.max_active : size == pieces_alone);
        for (std::uint32_t i = offsets[bag]; i < offsets[bag + 1]; ++i) {
            FUZZ_REQUIRE(numbers[i] < set.num_inputs);
            expected.emplace_back(numbers[i], bag);
        }
    }
    FUZZ_REQUIRE(header[1] == offsets[layout.num_bags()]);
    std::sort(expected.begin(), expected.end());
    FUZZ_REQUIRE(std::adjacent_find(expected.begin(), expected.end()) == expected.end());
    std::size_t i = 0;
    FUZZ_REQUIRE(touched_offsets[0] == 0);
    for (std::uint64_t j = 0; j < header[2]; ++j) {
        FUZZ_REQUIRE(touched_offsets[j] < touched_offsets[j + 1] && touched_offsets[j + 1] <= expected.size());
        for (; i < touched_offsets[j + 1]; ++i) {
            FUZZ_REQUIRE(expected[i].first == touched[j] && expected[i].second == bags[i]);
        }
        FUZZ_REQUIRE(j == 0 || touched[j - 1] < touched[j]);
    }
    FUZZ_REQUIRE(i == expected.size());
}

inline void check_batch_of_level(const std::vector<chess::Record>& records, const chess::Layout& layout,
                                 const chess::FeatureSet& set) {
    // Whole words, so that the slot is aligned; what is left of the last one stays the sanitizer's to watch.
    const auto slot = std::make_unique<std::byte[]>(layout.slot_bytes);
    chess::PositionBatchWriter writer(layout, std::make_shared<const chess::FeatureSet>(set));
    const auto* bytes = reinterpret_cast<const std::byte*>(records.data());
    const std::size_t third = records.size() / 3;
    writer.write(7, {bytes, third, sizeof records[0]},
                 {bytes + third * sizeof records[0], records.size() - third, sizeof records[0]}, slot.get());
    const auto* header = batch::array_in<std::uint64_t>(slot.get(), layout.header);
    const auto* buckets = batch::array_in<std::uint32_t>(slot.get(), layout.bucket_offsets);
    const auto* pieces = batch::array_in<std::uint8_t>(slot.get(), layout.piece_count);
    FUZZ_REQUIRE(header[0] == 7 && buckets[0] == 0 && buckets[layout.output_buckets.count] == records.size());
    for (std::uint32_t bucket = 0; bucket < layout.output_buckets.count; ++bucket) {
        for (std::uint32_t i = buckets[bucket]; i < buckets[bucket + 1]; ++i) {
            FUZZ_REQUIRE(layout.output_buckets.of(pieces[i]) == bucket);
        }
    }
    if (set.has_32bit_indices()) {
        check_rows_and_columns<std::uint32_t, std::uint16_t>(slot.get(), layout, set);
    } else {
        check_rows_and_columns<std::uint16_t, std::uint16_t>(slot.get(), layout, set);
    }
}

inline void check_batch(const std::vector<chess::Record>& records, const chess::Layout& layout,
                        const chess::FeatureSet& set) {
    for (const simd::Level level : simd::levels()) {
        simd::set_level(simd::name_of(level));
        check_batch_of_level(records, layout, set);
    }
}

}  // namespace sparsepool::fuzz
