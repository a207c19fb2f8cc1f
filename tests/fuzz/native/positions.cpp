// Target of each format of positions that has a codec, named by FUZZ_FORMAT; FUZZ_HEADER is its codec's. The first byte
// says how the rest is used: as it is, or as what gzip packs, of which the end may be lacking.
//
// Good entries are whole positions; every build of the decoder, entry by entry or in blocks, gives the same, and stops
// at the same place; written and read again they are the same, and so they are in pieces of a file.

#include <string>
#include <string_view>
#include <vector>

#include "chess/formats/text/native/format.h"
#include "chess/native/board/rules.h"
#include "chess/native/files/file.h"
#include "chess/native/formats/storable.h"
#include "chess/native/make_record.h"
#include "common/simd.h"
#include "compression/unpacker.h"
#include "entries.h"
#include "target.h"
#include "text_rows.h"

#include FUZZ_HEADER

namespace {

using namespace sparsepool;
using namespace sparsepool::fuzz;

const chess::Codec& codec() { return FUZZ_FORMAT::codec(); }

std::string_view view(std::span<const std::uint8_t> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Found {
    std::vector<chess::Entry> entries;
    std::optional<chess::Damage> damage;
};

void check_position(const chess::Position& position) {
    FUZZ_REQUIRE(chess::has_one_king_each(position));
    FUZZ_REQUIRE(chess::count_squares(position.occupied) <= 32);
    for (const chess::Bitboard plane : position.planes) FUZZ_REQUIRE((plane & ~position.occupied) == 0);
    FUZZ_REQUIRE((position.planes[2] & position.planes[3]) == 0);
    FUZZ_REQUIRE(position.ep_square <= chess::kNoSquare && position.side <= 1 && position.castling <= 15);
}

Found read_all(std::span<const std::uint8_t> bytes, const chess::Codec& format = codec()) {
    Found found;
    const auto walk = format.walk(view(bytes), {});
    while (const chess::Entry* entry = walk->next()) {
        check_position(entry->position);
        FUZZ_REQUIRE((entry->result >= -1 && entry->result <= 1) || entry->result == chess::kNoResult);
        found.entries.push_back(*entry);
    }
    FUZZ_REQUIRE(walk->next() == nullptr);
    found.damage = walk->damage();
    FUZZ_REQUIRE(!found.damage || found.damage->offset <= bytes.size());
    return found;
}

void check_blocks(std::span<const std::uint8_t> bytes, const Found& found, std::size_t block) {
    const auto walk = codec().walk(view(bytes), {});
    std::vector<chess::Record> records(block);
    std::size_t done = 0;
    std::size_t read = 0;
    do {
        read = walk->read(records.data(), block, true);
        for (std::size_t i = 0; i < read; ++i, ++done) {
            FUZZ_REQUIRE(done < found.entries.size());
            const chess::Record expected = chess::make_record(found.entries[done]);
            FUZZ_REQUIRE(std::memcmp(&expected, &records[i], sizeof expected) == 0);
        }
    } while (read == block);
    FUZZ_REQUIRE(done == found.entries.size());
    const auto damage = walk->damage();
    FUZZ_REQUIRE(damage.has_value() == found.damage.has_value());
    FUZZ_REQUIRE(!damage || (damage->offset == found.damage->offset && damage->reason == found.damage->reason));
}

// What is only read is written as text, which has no moves.
void check_round_trip_of(const Found& found) {
    const bool writes = codec().make_writer() != nullptr;
    const chess::Codec& into = writes ? codec() : text::codec();
    const auto writer = into.make_writer();
    for (const chess::Entry& entry : found.entries) FUZZ_REQUIRE(writer->add(entry).empty());
    writer->finish();
    const std::vector<std::uint8_t> bytes = writer->take();
    const Found again = read_all(bytes, into);
    FUZZ_REQUIRE(!again.damage && again.entries.size() == found.entries.size());
    for (std::size_t i = 0; i < found.entries.size(); ++i) {
        const chess::Position& position = found.entries[i].position;
        // A game that another continues is one with it, and its first squares are then those that can be taken on.
        const bool game = codec().has_games();
        chess::Entry expected = found.entries[i];
        if (!writes) expected.move = {};
        if (game && chess::are_equal(position, again.entries[i].position)) {
            expected.position.ep_square = again.entries[i].position.ep_square;
        }
        FUZZ_REQUIRE(same_entry(expected, again.entries[i]));
        FUZZ_REQUIRE(game || position.rule50 == again.entries[i].position.rule50);
    }
}

chess::OpenedFile open(const std::string& path) { return codec().open(path, std::nullopt, {}, std::nullopt); }

// Entries of all pieces up to the first fault; whether there was one.
bool read_file(std::string_view bytes, std::vector<chess::Entry>& entries) {
    const chess::OpenedFile opened = open(file_of(bytes));
    if (opened.file == nullptr) FUZZ_REQUIRE(codec().has_header() && !opened.fault.reason.empty());
    if (opened.file == nullptr) return true;
    for (std::size_t piece = 0; piece < opened.file->num_pieces(); ++piece) {
        const chess::Piece read = opened.file->read(piece);
        const auto walk = opened.file->walk(read, {});
        while (const chess::Entry* entry = walk->next()) entries.push_back(*entry);
        if (const auto damage = walk->damage()) {
            FUZZ_REQUIRE(!opened.file->fault_of(piece, read, *damage).reason.empty());
            return true;
        }
        if (read.fault) return true;
    }
    return false;
}

void check_file(std::string_view bytes, const Found& found, bool packs, std::size_t lacking) {
    const bool is_utf16 = bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF");
    if (codec().has_lines() && is_utf16) return;  // which is refused
    std::string file(bytes);
    if (packs) file = gzipped(bytes);
    lacking = packs ? std::min(lacking, file.size() - 2) : 0;
    file.resize(file.size() - lacking);
    std::vector<chess::Entry> entries;
    const bool fault = read_file(file, entries);
    if (!packs && packed::packing_of(chess::span_of(file))) return;  // by chance
    FUZZ_REQUIRE(lacking != 0 ? fault : fault == found.damage.has_value());
    FUZZ_REQUIRE(lacking != 0 ? entries.size() <= found.entries.size() : entries.size() == found.entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) FUZZ_REQUIRE(same_entry(entries[i], found.entries[i]));
}

}  // namespace

void sparsepool::fuzz::check_input(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return;
    const std::uint8_t choice = data[0];
    const std::vector<std::uint8_t> copy(data + 1, data + size);  // so that reading past its end is seen
    const std::string_view text(reinterpret_cast<const char*>(copy.data()), copy.size());
    std::optional<Found> found;
    for (const simd::Level level : simd::levels()) {
        simd::set_level(simd::name_of(level));
        if (!found) found = read_all(copy);
        check_blocks(copy, *found, 1 + choice % 16);
    }
    check_round_trip_of(*found);
    const std::size_t whole = codec().units().whole(text, 0);
    FUZZ_REQUIRE(whole <= text.size());
    (void)codec().units().count(text.substr(0, whole));
    check_file(text, *found, (choice & 1) != 0, (choice & 2) != 0 ? choice >> 2 : 0);
}
