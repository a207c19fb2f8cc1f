#include <doctest/doctest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <vector>

#include "stream/chunk_sums.h"
#include "stream/cutter.h"
#include "stream/order/mixture.h"
#include "stream/order/order.h"
#include "stream/pipeline.h"
#include "stream/records.h"

using namespace sparsepool;
using namespace sparsepool::stream;

namespace {

constexpr std::size_t kChunks = 7;
constexpr std::uint32_t kBatch = 10;
constexpr std::uint32_t kDamaged = 3;  // a chunk

std::uint32_t entries_in(std::size_t chunk) { return static_cast<std::uint32_t>(20 + 3 * chunk); }

std::uint32_t all_entries() {
    std::uint32_t sum = 0;
    for (std::size_t chunk = 0; chunk < kChunks; ++chunk) sum += entries_in(chunk);
    return sum;
}

// Record number `entry` of a chunk: its name, and what tells whether all of it has arrived.
std::vector<std::byte> record_of(std::uint32_t chunk, std::uint32_t entry, std::size_t size) {
    std::vector<std::byte> record(std::max<std::size_t>(size, 4), static_cast<std::byte>(chunk * 31 + entry));
    const std::uint32_t name = chunk << 16 | entry;
    std::memcpy(record.data(), &name, 4);
    return record;
}

// A batch is the names of its records.
class NamesWriter final : public BatchWriter {
  public:
    explicit NamesWriter(std::size_t record_size) : record_size_(record_size) {}

    void write(std::uint64_t number, const RecordSpan& head, const RecordSpan& body, std::byte* slot) override {
        auto* out = reinterpret_cast<std::uint32_t*>(slot);
        *out++ = static_cast<std::uint32_t>(number);
        for (const RecordSpan& records : {head, body}) {
            for (std::size_t i = 0; i < records.size(); ++i) *out++ = name_of(records[i]);
        }
    }

  private:
    // Of a record that is whole; else 0xFFFFFFFF.
    [[nodiscard]] std::uint32_t name_of(std::span<const std::byte> record) const {
        std::uint32_t name = 0;
        std::memcpy(&name, record.data(), 4);
        const std::size_t size = record_size_ != 0 ? record_size_ : 4 + (name & 0xFFFF) % 9;
        const auto expected = record_of(name >> 16, name & 0xFFFF, size);
        return std::ranges::equal(record, expected) ? name : 0xFFFFFFFF;
    }

    std::size_t record_size_;
};

class NamesSource final : public Source {
  public:
    NamesSource(std::size_t record_size, bool damaged) : record_size_(record_size), damaged_(damaged) {}

    [[nodiscard]] std::size_t record_size() const override { return record_size_; }
    [[nodiscard]] std::size_t num_chunks() const override { return kChunks; }
    [[nodiscard]] std::uint32_t batch_size() const override { return kBatch; }
    [[nodiscard]] std::size_t slot_bytes() const override { return 4 * (kBatch + 1); }
    [[nodiscard]] std::string name() const override { return "names"; }
    [[nodiscard]] std::size_t chunks_per_task() const override { return 2; }
    void compare_with(ChunkSums) override {}

    void decode(std::span<ChunkRead> chunks) const override {
        for (ChunkRead& read : chunks) {
            const auto chunk = static_cast<std::uint32_t>(read.chunk);
            for (std::uint32_t entry = 0; entry < entries_in(chunk); ++entry) {
                const auto record = record_of(chunk, entry, record_size_ != 0 ? record_size_ : 4 + entry % 9);
                if (record_size_ == 0) {
                    read.records.append(std::span<const std::byte>(record));
                } else {  // in place, as families of records with one size do it
                    std::memcpy(read.records.room<std::byte>(record.size()), record.data(), record.size());
                    read.records.grow(1);
                }
                if (damaged_ && chunk == kDamaged && entry == 5) {
                    read.fault = SourceFault{"names", entry, "damage"};
                    break;
                }
            }
            read.entries = read.records.size();
        }
    }

    [[nodiscard]] std::unique_ptr<BatchWriter> batch_writer() const override {
        return std::make_unique<NamesWriter>(record_size_);
    }

  private:
    std::size_t record_size_;
    bool damaged_;
};

using Batch = std::vector<std::uint32_t>;

constexpr std::uint32_t kUntouched = 0xABABABAB;

// The first `count` batches from a cursor, and where each began; `built`: which are not passed over.
std::vector<Batch> run(
    std::size_t record_size, const PipelineSettings& settings, std::size_t count,
    std::vector<Cursor>* cursors = nullptr, const Cursor& from = {}, bool damaged = false,
    const std::function<bool(std::size_t)>& built = [](std::size_t) { return true; }) {
    std::vector<Batch> slots(3, Batch(kBatch + 1));  // live longer than what writes to them
    Pipeline pipeline(std::make_shared<NamesSource>(record_size, damaged), settings);
    std::vector<std::byte*> memory;
    for (Batch& slot : slots) memory.push_back(reinterpret_cast<std::byte*>(slot.data()));
    pipeline.attach(memory);
    if (from.batch != 0) pipeline.seek(from);
    std::size_t given = 0;
    const auto give = [&](std::size_t slot) {
        slots[slot].assign(kBatch + 1, kUntouched);
        pipeline.submit_slot(slot, !built(given++));
    };
    for (std::size_t slot = 0; slot < slots.size(); ++slot) give(slot);
    std::vector<Batch> batches;
    while (batches.size() < count) {
        const Pipeline::PopResult taken = pipeline.pop_batch();
        if (const auto* fault = std::get_if<StreamFault>(&taken)) throw std::runtime_error(fault->fault.reason);
        if (const auto* batch = std::get_if<FinishedBatch>(&taken)) {
            if (built(batches.size())) REQUIRE(slots[batch->slot][0] == batch->begin.batch);
            batches.emplace_back(slots[batch->slot].begin() + 1, slots[batch->slot].end());
            if (cursors != nullptr) cursors->push_back(batch->begin);
            give(batch->slot);
            continue;
        }
        pollfd ready{pipeline.descriptor(), POLLIN, 0};
        REQUIRE(::poll(&ready, 1, 60'000) == 1);
    }
    return batches;
}

PipelineSettings settings_of(std::uint32_t threads, bool shuffle) {
    PipelineSettings settings;
    settings.seed = 3;
    settings.window_chunks = 3;
    settings.threads = threads;
    settings.shuffle = shuffle;
    return settings;
}

}  // namespace

TEST_CASE("an epoch has every record once and whole, whatever the size of records") {
    const std::size_t epoch = all_entries() / kBatch;
    for (const bool shuffle : {true, false}) {
        const auto expected = run(32, settings_of(1, shuffle), 2 * epoch);
        std::multiset<std::uint32_t> seen;
        for (std::size_t i = 0; i < epoch; ++i) seen.insert(expected[i].begin(), expected[i].end());
        CHECK(seen.count(0xFFFFFFFF) == 0);
        CHECK(std::set(seen.begin(), seen.end()).size() == seen.size());
        CHECK(seen.size() == epoch * kBatch);
        for (const std::size_t size : {std::size_t{0}, std::size_t{4}, std::size_t{24}, std::size_t{100}}) {
            for (const std::uint32_t threads : {1U, 4U}) {
                CHECK(run(size, settings_of(threads, shuffle), 2 * epoch) == expected);
            }
        }
    }
}

TEST_CASE("a seek finds the same batch, whatever is being decoded when it comes") {
    for (const std::size_t size : {std::size_t{0}, std::size_t{32}}) {
        std::vector<Cursor> cursors;
        const auto batches = run(size, settings_of(2, true), 60, &cursors);
        for (std::size_t first = 1; first < 50; ++first) {
            const auto found =
                run(size, settings_of(static_cast<std::uint32_t>(1 + first % 3), true), 10, nullptr, cursors[first]);
            CHECK(std::ranges::equal(found, std::span(batches).subspan(first, 10)));
        }
    }
}

TEST_CASE("batches that are passed over are not built, and the others are what they were") {
    const std::size_t count = 80;  // more than an epoch
    for (const bool shuffle : {true, false}) {
        std::vector<Cursor> cursors;
        const auto expected = run(32, settings_of(2, shuffle), count, &cursors);
        for (const std::size_t every : {std::size_t{1}, std::size_t{2}, std::size_t{7}, count}) {
            const auto built = [&](std::size_t batch) { return batch % every == every - 1; };
            for (const std::uint32_t threads : {1U, 4U}) {
                std::vector<Cursor> found;
                const auto batches = run(32, settings_of(threads, shuffle), count, &found, {}, false, built);
                for (std::size_t i = 0; i < count; ++i) {
                    CHECK(batches[i] == (built(i) ? expected[i] : Batch(kBatch, kUntouched)));
                    CHECK(found[i].entry == cursors[i].entry);
                }
            }
        }
    }
}

TEST_CASE("damage ends the stream, or its chunk is left out whole") {
    PipelineSettings settings = settings_of(2, true);
    CHECK_THROWS_WITH(run(0, settings, 30, nullptr, {}, true), "damage");
    settings.skip_damaged = true;
    for (const Batch& batch : run(0, settings, 30, nullptr, {}, true)) {
        for (const std::uint32_t name : batch) CHECK((name >> 16) != kDamaged);
    }
}

TEST_CASE("what a caller gets wrong is an exception that says so") {
    Batch slot(kBatch + 1);
    Pipeline pipeline(std::make_shared<NamesSource>(32, false), settings_of(1, true));
    CHECK_THROWS_AS(pipeline.seek({}), std::invalid_argument);
    CHECK_THROWS_AS(pipeline.attach({}), std::invalid_argument);
    pipeline.attach({reinterpret_cast<std::byte*>(slot.data())});
    CHECK_THROWS_WITH_AS(pipeline.submit_slot(1), "slot 1 is not attached", std::invalid_argument);
    CHECK_THROWS_WITH_AS(pipeline.seek({0, 0, 9, 0}), "cursor: window 9 is not one of the 3 windows of an epoch",
                         std::invalid_argument);
    pipeline.close();
    CHECK_THROWS_WITH_AS(pipeline.submit_slot(0), "the stream is closed", std::invalid_argument);
}

TEST_CASE("records with sizes of their own are found again, also in a part of them") {
    RecordBuffer buffer(0);
    std::vector<std::vector<std::byte>> records;
    for (std::uint32_t i = 0; i < 100; ++i) records.push_back(record_of(1, i, 4 + i % 9));
    records[50].clear();  // none at all
    for (const auto& record : records) buffer.append(std::span<const std::byte>(record));
    REQUIRE(buffer.size() == 100);
    const RecordSpan part = buffer.records(40, 30);
    for (std::size_t i = 0; i < part.size(); ++i) CHECK(std::ranges::equal(part[i], records[40 + i]));
    RecordBuffer copy(0);
    copy.append(buffer.records(0, 10));
    copy.append(part);
    CHECK(copy.size() == 40);
    CHECK(std::ranges::equal(copy.records()[39], records[69]));
    CHECK(copy.records().bytes().size() == copy.num_bytes());
}

TEST_CASE("a window's order puts every entry in one place, and spreads neighbours over its batches") {
    for (const std::uint32_t size : {1U, 9U, 10U, 11U, 995U, 1000U}) {
        const EntryOrder order(size, 10, 1, 2, 3);
        RunBuffer buffer;
        std::set<std::uint32_t> all_positions;
        for (std::uint32_t run = 0; run < order.num_runs(); ++run) {
            const std::span<const std::uint32_t> positions = order.find_positions(run, buffer);
            std::set<std::uint32_t> batches;
            for (const std::uint32_t position : positions) {
                all_positions.insert(position);
                batches.insert(position / 10);
            }
            CHECK(batches.size() + 1 >= positions.size());  // lanes are a batch each, give or take one entry
        }
        CHECK(all_positions.size() == size);
        CHECK(*all_positions.rbegin() == size - 1);
    }
}

TEST_CASE("an epoch's windows are a permutation of its chunks, another one each epoch") {
    const ChunkOrder order(Split().chunks(10), {}, 4, true, 5);
    std::vector<std::vector<std::uint32_t>> epochs;
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
        std::vector<std::uint32_t> chunks;
        for (std::uint64_t window = 0; window < order.num_windows(); ++window) {
            for (const auto& [chunk, pass] : order.window(epoch, window)) {
                CHECK(pass == epoch);
                chunks.push_back(chunk);
            }
        }
        epochs.push_back(chunks);
        std::ranges::sort(chunks);
        for (std::uint32_t i = 0; i < 10; ++i) CHECK(chunks[i] == i);
    }
    CHECK(epochs[0] != epochs[1]);
}

TEST_CASE("a mixture reads each component at even distances, each of its chunks once before one comes again") {
    const std::vector<Component> components = {{50, 3.0}, {7, 1.0}, {1, 0.01}};
    std::vector<std::uint32_t> chunks(58);
    std::iota(chunks.begin(), chunks.end(), 0U);
    for (const bool shuffle : {true, false}) {
        const Mixture mixture(chunks, components, shuffle, 9);
        CHECK(reads_of_an_epoch(components) == std::vector<std::uint64_t>{300, 100, 1});
        REQUIRE(mixture.size() == 401);
        std::map<std::uint32_t, std::uint64_t> seen;  // of each chunk: how often
        for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
            const std::vector<ChunkTurn> turns = mixture.turns(epoch, 0, 401);
            REQUIRE(turns.size() == 401);
            std::array<double, 3> counts{};
            for (std::size_t place = 0; place < turns.size(); ++place) {
                const auto [chunk, pass] = turns[place];
                CHECK(pass == seen[chunk]++);
                ++counts[chunk < 50 ? 0 : chunk < 57 ? 1 : 2];
                for (std::size_t i = 0; i < 3; ++i) {
                    const double due = std::array{300.0, 100.0, 1.0}[i] * static_cast<double>(place + 1) / 401;
                    CHECK(std::abs(counts[i] - due) <= 1.5);
                }
            }
            for (std::uint64_t begin = 0; begin < 401; begin += 16) {  // from any place
                const std::vector<ChunkTurn> part = mixture.turns(epoch, begin, begin + 16);
                for (std::size_t i = 0; i < part.size(); ++i) {
                    CHECK(part[i].chunk == turns[begin + i].chunk);
                    CHECK(part[i].pass == turns[begin + i].pass);
                }
            }
        }
    }
    CHECK_THROWS_AS((void)reads_of_an_epoch({{10, 1e-9}, {10, 1.0}}), std::invalid_argument);
    CHECK_THROWS_AS((void)reads_of_an_epoch({{10, 0.0}}), std::invalid_argument);
}

TEST_CASE("a split gives each place to one side, and to validations one of each run of 1 / share") {
    for (const double share : {0.5, 0.37, 0.1, 0.02, 0.001}) {
        for (const bool apart : {false, true}) {
            const std::size_t chunks = apart ? 3 : 4000;
            const Split train(share, false, apart, chunks, 9);
            const Split held(share, true, apart, chunks, 9);
            REQUIRE(train.splits_chunks() == apart);
            if (!apart) {
                CHECK(train.chunks(chunks).size() + held.chunks(chunks).size() == chunks);
                CHECK(std::abs(static_cast<double>(held.chunks(chunks).size()) - share * 4000) <= 1);
            }
            for (std::size_t chunk = 0; apart && chunk < chunks; ++chunk) {
                double count = 0;
                for (std::size_t record = 0; record < 64'000; ++record) {
                    CHECK(train.has(chunk, record) != held.has(chunk, record));
                    CHECK(held.has(chunk, record) == held.has(chunk, record / 16 * 16));
                    count += held.has(chunk, record) ? 1 : 0;
                }
                CHECK(std::abs(count - share * 64'000) <= 16);
            }
        }
    }
    CHECK_THROWS_AS(Split(0.1, false, false, 9, 1), std::invalid_argument);
    CHECK_THROWS_AS(Split(0.6, false, false, 90, 1), std::invalid_argument);
}

TEST_CASE("records that are kept stay in their order") {
    RecordBuffer sized(3);
    RecordBuffer any(0);
    for (std::uint8_t i = 0; i < 9; ++i) {
        const std::vector<std::byte> record(i, std::byte{i});
        any.append(record);
        std::byte* const room = sized.room<std::byte>(3);
        std::fill_n(room, 3, std::byte{i});
        sized.grow(1);
    }
    const auto wanted = [](std::size_t i) { return i % 4 == 3; };
    any.retain(wanted);
    sized.retain(wanted);
    REQUIRE(any.size() == 2);
    REQUIRE(sized.size() == 2);
    for (const std::uint8_t i : {0, 1}) {
        const auto number = static_cast<std::uint8_t>(4 * i + 3);
        CHECK(any.records()[i].size() == number);
        CHECK(std::ranges::all_of(any.records()[i], [&](std::byte each) { return each == std::byte{number}; }));
        CHECK(sized.records()[i][2] == std::byte{number});
    }
}

TEST_CASE("the cutter's batches follow one another through windows of any size") {
    Cutter cutter(10, 2, false);
    const std::uint64_t sizes[] = {13, 4};  // of the two windows of an epoch
    std::uint64_t cut = 0;
    for (int window = 0; window < 20; ++window) {
        REQUIRE(cutter.open(sizes[window % 2]));
        while (cutter.can_cut()) {
            CHECK(cutter.cut().begin.batch == cut);
            ++cut;
        }
        CHECK(cutter.close().no_batch_reason.empty());
    }
    CHECK(cut == 10 * 17 / 10);
}

TEST_CASE("a chunk's sum is taken down once, and another one is told") {
    std::vector<std::uint64_t> words(3);
    const ChunkSums sums(words);
    const std::vector<std::uint8_t> bytes = {1, 2, 3};
    const std::vector<std::uint8_t> others = {1, 2, 4};
    CHECK(sums.record_or_verify(1, bytes));
    CHECK(sums.record_or_verify(1, bytes));
    CHECK_FALSE(sums.record_or_verify(1, others));
    CHECK(sums.subrange(1, 2).record_or_verify(0, bytes));
    CHECK(words[0] == 0);
    CHECK(ChunkSums().subrange(5, 1).record_or_verify(0, others));
}
