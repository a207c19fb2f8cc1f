// Target: the table that says where a batch's arrays lie in a slot. Input: changes to a right table.
//
// A table is refused with a reason, or no batch written by it leaves its slot or one array for another.

#include <array>
#include <stdexcept>

#include "batch_oracle.h"
#include "chess/native/make_record.h"
#include "target.h"

namespace {

using namespace sparsepool;

// Numbers out of the input; zeros at its end.
class Numbers {
  public:
    Numbers(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
    [[nodiscard]] bool left() const { return size_ != 0; }

    std::uint64_t take(std::size_t bytes) {
        std::uint64_t number = 0;
        for (; bytes != 0 && size_ != 0; --bytes, --size_) number = number << 8 | *data_++;
        return number;
    }

  private:
    const std::uint8_t* data_;
    std::size_t size_;
};

void change(std::map<std::string, batch::Region>& table, std::uint64_t& slot_bytes, Numbers& numbers) {
    auto region = table.begin();
    std::advance(region, static_cast<std::ptrdiff_t>(numbers.take(1) % table.size()));
    const std::uint64_t kind = numbers.take(1);
    switch (kind % 8) {
        case 0: region->second.offset = numbers.take(8); break;
        case 1: region->second.offset = 8 * numbers.take(2); break;
        case 2: region->second.offset += numbers.take(1); break;
        case 3: region->second.count = numbers.take(8); break;
        case 4: region->second.item_size = numbers.take(1); break;
        case 5: slot_bytes = numbers.take(8); break;
        case 6: slot_bytes += numbers.take(1) - 128; break;
        default: table["x" + std::to_string(numbers.take(1))] = region->second; table.erase(region);
    }
}

std::vector<chess::Record> some_records(std::size_t count) {
    constexpr std::array<std::uint8_t, 32> kStart = {0xFF, 0xFF, 0,    0,    0, 0,    0xFF, 0xFF, 0x2D, 0x84, 0x4A,
                                                     0xD2, 0,    0,    0,    0, 0x11, 0x11, 0x11, 0x11, 0x3E, 0x95,
                                                     0x5B, 0xE3, 0x0C, 0x70, 0, 0x46, 0x80, 0,    0,    0};
    chess::Entry entry;
    FUZZ_REQUIRE(binpack::read_stem(kStart.data(), entry) == binpack::Fault::kNone);
    return std::vector<chess::Record>(count, chess::make_record(entry));
}

}  // namespace

void sparsepool::fuzz::check_input(const std::uint8_t* data, std::size_t size) {
    Numbers numbers(data, size);
    const auto set = fuzz::some_feature_set(numbers.take(1));
    const std::uint64_t size_kind = numbers.take(1);
    const std::uint64_t batch_size = size_kind < 250 ? size_kind % 9 : numbers.take(8);
    std::uint64_t slot_bytes = 0;
    auto table = fuzz::region_table(std::min<std::uint64_t>(batch_size, 1 << 20), *set, slot_bytes);
    for (int changes = 0; changes < 8 && numbers.left() && !table.empty(); ++changes)
        change(table, slot_bytes, numbers);
    chess::Layout layout;
    try {
        layout = chess::read_layout(table, batch_size, slot_bytes, *set, fuzz::output_buckets());
    } catch (const std::invalid_argument&) {
        return;
    }
    FUZZ_REQUIRE(batch_size > 0 && batch_size <= batch::kMaxBatchSize);
    for (const auto& [name, region] : table) {
        FUZZ_REQUIRE(region.offset % region.item_size == 0);
        FUZZ_REQUIRE(region.offset <= slot_bytes && region.count * region.item_size <= slot_bytes - region.offset);
    }
    if (batch_size > 8 || slot_bytes > 1 << 20) return;
    fuzz::check_batch(some_records(batch_size), layout, *set);
}
