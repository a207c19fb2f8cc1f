// Target: packed positions, and what the stream makes of them. Input: a byte that picks the feature set, then
// stems of 32 bytes. Those that can be read become one batch.

#include "batch_oracle.h"
#include "chess/formats/binpack/native/entries/stem.h"
#include "chess/native/make_record.h"
#include "target.h"

using namespace sparsepool;

void sparsepool::fuzz::check_input(const std::uint8_t* data, std::size_t size) {
    if (size < 1 + binpack::kStemBytes) return;
    const auto set = fuzz::some_feature_set(data[0]);
    std::vector<chess::Record> records;
    for (std::size_t begin = 1; begin + binpack::kStemBytes <= size; begin += binpack::kStemBytes) {
        const std::vector<std::uint8_t> stem(data + begin, data + begin + binpack::kStemBytes);
        chess::Entry entry;
        if (binpack::read_stem(stem.data(), entry) != binpack::Fault::kNone) continue;
        FUZZ_REQUIRE(entry.result >= -1 && entry.result <= 1);
        records.push_back(chess::make_record(entry));
    }
    if (records.empty()) return;
    std::uint64_t slot_bytes = 0;
    const auto table = fuzz::region_table(records.size(), *set, slot_bytes);
    fuzz::check_batch(records, chess::read_layout(table, records.size(), slot_bytes, *set, fuzz::output_buckets()),
                      *set);
}
