// Target: a binpack file, from the header of its first chunk to its last entry.
//
// Each entry read is good or the damage has a place in the file; all builds of the decoder, alone and with other chunks
// in turn, the printer and the writer agree about it; what was read can be written, and is then read the same.

#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <string>

#include "chess/formats/binpack/native/format.h"
#include "chess/native/files/file.h"
#include "chess/native/make_record.h"
#include "chunks.h"
#include "common/simd.h"
#include "entries.h"
#include "target.h"

namespace {

using namespace sparsepool;
using fuzz::Bytes;

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

// One file in memory for all inputs: opened by its name, as any file.
std::shared_ptr<const chess::EntryFile> open_bytes(std::span<const std::uint8_t> bytes) {
    static const int descriptor = ::memfd_create("input", MFD_CLOEXEC);
    static const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    FUZZ_REQUIRE(::ftruncate(descriptor, 0) == 0);
    FUZZ_REQUIRE(::pwrite(descriptor, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    chess::OpenedFile opened = binpack::codec().open(path, std::nullopt, {}, std::nullopt);
    FUZZ_REQUIRE(opened.file != nullptr);
    return opened.file;
}

bool same_records(const std::vector<chess::Record>& a, const std::vector<chess::Record>& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0);
}

std::string_view view(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// The payload between others that begin later in it and so come to their ends, or to damage, at other times.
void check_together(const Bytes& payload, const std::vector<chess::Record>& expected) {
    std::vector<Bytes> payloads(binpack::kMaxLanes);
    std::vector<std::unique_ptr<chess::Walk>> walks;
    std::vector<std::vector<chess::Record>> blocks(binpack::kMaxLanes, std::vector<chess::Record>(7));
    std::vector<chess::Lane> lanes;
    for (std::size_t i = 0; i < binpack::kMaxLanes; ++i) {
        const auto begin = static_cast<std::ptrdiff_t>(i == 1 ? 0 : payload.size() * i / binpack::kMaxLanes);
        payloads[i].assign(payload.begin() + begin, payload.end());
        walks.push_back(binpack::codec().walk(view(payloads[i]), {}));
        lanes.push_back({walks.back().get(), nullptr, false});
    }
    std::vector<chess::Record> records;
    while (!lanes.empty()) {
        for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i].out = blocks[i].data();
        binpack::codec().read_lanes(lanes, blocks.front().size(), true);
        for (std::size_t i = 0; i < lanes.size(); ++i) {
            if (lanes[i].walk == walks[1].get()) records.insert(records.end(), blocks[i].data(), lanes[i].out);
        }
        std::erase_if(lanes, [](const chess::Lane& lane) { return lane.at_end; });
    }
    FUZZ_REQUIRE(same_records(records, expected));
}

void check_payload(const Bytes& payload) {
    binpack::ChunkState state;
    const auto entries = fuzz::read_entries(payload, state);
    if (state.fault != binpack::Fault::kNone)
        FUZZ_REQUIRE(state.chain_begin + binpack::kSmallestChain <= payload.size());
    FUZZ_REQUIRE(entries.size() <= 8 * payload.size() / 5 + 1);  // an entry takes 5 bits at least: memory is bounded
    std::vector<chess::Record> expected;
    for (const auto& read : entries) expected.push_back(chess::make_record(read.entry));

    for (const simd::Level level : simd::levels()) {
        simd::set_level(simd::name_of(level));
        std::vector<chess::Record> records;
        const auto walk = binpack::codec().walk(view(payload), {});
        constexpr std::size_t kBlock = 50;  // small, so that decoding is taken up again often
        std::vector<chess::Record> block(kBlock);
        std::size_t count = kBlock;
        while (count == kBlock) {
            count = walk->read(block.data(), kBlock, true);
            records.insert(records.end(), block.begin(), block.begin() + static_cast<std::ptrdiff_t>(count));
        }
        const auto damage = walk->damage();
        FUZZ_REQUIRE(damage.has_value() == (state.fault != binpack::Fault::kNone));
        if (damage) FUZZ_REQUIRE(damage->offset == state.chain_begin && damage->unit == state.entry_index);
        FUZZ_REQUIRE(same_records(records, expected));
        check_together(payload, expected);
    }
    const auto counting = binpack::codec().walk(view(payload), {});
    FUZZ_REQUIRE(counting->count() == entries.size());
    FUZZ_REQUIRE(counting->damage().has_value() == (state.fault != binpack::Fault::kNone));
    const auto walk = binpack::codec().walk(view(payload), {});
    std::size_t count = 0;
    for (; walk->next() != nullptr; ++count) FUZZ_REQUIRE(walk->offset() <= payload.size());
    FUZZ_REQUIRE(count == entries.size());
    fuzz::check_round_trip(entries);
}

}  // namespace

void sparsepool::fuzz::check_input(const std::uint8_t* data, std::size_t size) {
    const auto file = open_bytes({data, size});
    FUZZ_REQUIRE(file->size() == size);
    std::uint64_t next = 0;
    for (std::size_t chunk = 0; chunk < file->num_pieces(); ++chunk) {
        FUZZ_REQUIRE(file->offset(chunk) == next);
        const auto piece = file->read(chunk);
        if (piece.fault) {  // a header that is none
            FUZZ_REQUIRE(piece.fault->offset == next && next != size && chunk + 1 == file->num_pieces());
            return;
        }
        FUZZ_REQUIRE(piece.begin == next + binpack::kHeaderBytes);
        next = piece.begin + piece.bytes.size();
        FUZZ_REQUIRE(next <= size);
        const auto payload = chess::span_of(piece.bytes);
        check_payload(Bytes(payload.begin(), payload.end()));  // a copy, so that reading past its end is seen
    }
    FUZZ_REQUIRE(next == size);
}

// Three in four mutants have right headers; half of those differ from the parent in one chain's fields only.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
    std::minstd_rand random(seed);
    const unsigned choice = random() % 8;
    if (choice < 2) return LLVMFuzzerMutate(data, size, max_size);
    std::vector<Bytes> chunks;
    if (choice < 5) {
        chunks = fuzz::split_chunks({data, LLVMFuzzerMutate(data, size, max_size)});
    } else {
        chunks = fuzz::split_chunks({data, size});
        if (chunks.empty()) return LLVMFuzzerMutate(data, size, max_size);
        Bytes& chunk = chunks[random() % chunks.size()];
        const auto begins = fuzz::chain_begins(chunk);
        // A whole payload, a stem, or the move text up to the chunk's end.
        const std::size_t begin = begins.empty() ? 0 : begins[random() % begins.size()];
        const std::size_t from = choice == 5 ? 0 : std::min(begin + (choice == 7 ? 34 : 0), chunk.size());
        const std::size_t length = choice == 6 ? std::min<std::size_t>(34, chunk.size() - from) : chunk.size() - from;
        Bytes part(chunk.begin() + static_cast<std::ptrdiff_t>(from),
                   chunk.begin() + static_cast<std::ptrdiff_t>(from + length));
        const std::size_t room = choice == 6 ? std::max<std::size_t>(length, 1) : length + 64;
        part.resize(room);
        part.resize(LLVMFuzzerMutate(part.data(), length, room));
        Bytes mended(chunk.begin(), chunk.begin() + static_cast<std::ptrdiff_t>(from));
        mended.insert(mended.end(), part.begin(), part.end());
        mended.insert(mended.end(), chunk.begin() + static_cast<std::ptrdiff_t>(from + length), chunk.end());
        chunk = std::move(mended);
        if (random() % 16 == 0) chunks.push_back(chunks[random() % chunks.size()]);
    }
    const Bytes file = fuzz::join_chunks(chunks);
    const std::size_t new_size = std::min(file.size(), max_size);
    std::copy_n(file.begin(), new_size, data);
    return new_size;
}
