#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "chess/formats/binpack/native/entries/candidates.h"
#include "chess/formats/binpack/native/entries/lane.h"
#include "chess/formats/binpack/native/entries/stem.h"
#include "chess/native/board/rules.h"
#include "chess/native/formats/pseudo_legal.h"

namespace sparsepool::binpack {

inline namespace SPARSEPOOL_ISA {

// Loads the next 64 bits of the move text, the first in the highest bit: an entry has 30 at most. Behind the payload's
// end are zeros.
[[nodiscard]] inline std::uint64_t load_bits(std::span<const std::uint8_t> payload, std::uint64_t bit) {
    const std::uint64_t byte = bit >> 3;
    const std::uint8_t* bytes = payload.data() + byte;
    std::uint8_t padded[8] = {};
    if (byte + sizeof padded > payload.size()) [[unlikely]] {
        if (byte < payload.size()) std::memcpy(padded, bytes, payload.size() - byte);
        bytes = padded;
    }
    return load_big_endian(bytes) << (bit & 7);
}

// Reads the bits of one entry, and keeps what is known of its move between the phases of decoding.
//
// The move text of an entry, most significant bit first, each index in as few bits as its number of values needs:
//     index of the moving piece among the own pieces
//     index of the move among the piece's: destinations ascending (times 4 for promotions), then castling
//     score: groups of 5 bits (read_score)
struct MoveReader {
    std::uint64_t bits;  // not read yet, the next one highest
    unsigned used_bits;
    unsigned from;
    unsigned type;
    Bitboard targets;

    [[nodiscard]] unsigned read_bits(unsigned count) {
        const auto value = static_cast<unsigned>((bits >> 1) >> (63 - count));  // two shifts: count may be 0
        bits <<= count;
        used_bits += count;
        return value;
    }
};

[[nodiscard]] inline Fault to_fault(chess::MoveFault fault) {
    switch (fault) {
        case chess::MoveFault::kNone: return Fault::kNone;
        case chess::MoveFault::kNotOwnPiece: return Fault::kNotOwnPiece;
        case chess::MoveFault::kOntoOwnPiece: return Fault::kOntoOwnPiece;
        case chess::MoveFault::kTakesKing: return Fault::kTakesKing;
        case chess::MoveFault::kNotAPawn: return Fault::kNotAPawn;
        case chess::MoveFault::kNoPawnToTake: return Fault::kNoPawnToTake;
        case chess::MoveFault::kBadCastling: return Fault::kBadCastling;
    }
    return Fault::kNotOwnPiece;
}

// Moves the walk behind the bits that were read. Returns `fault`, or kPastTheEnd if the payload has fewer bits: that is
// the reason for any other fault.
[[nodiscard]] inline Fault advance(ChunkState& state, const MoveReader& reader, Fault fault) {
    state.bit += reader.used_bits;
    return state.bit > 8 * std::uint64_t{state.payload.size()} ? Fault::kPastTheEnd : fault;
}

// What a phase of decoding leaves of an entry. As wide as a register: gcc 12 keeps narrower values of two lanes in one
// word, and reading that waits for a store.
enum class EntryStatus : std::uint64_t {
    kEnd,        // none is left, or a fault
    kComplete,   // decoded
    kNeedsMove,  // its position is known; move and score are still to be read
    kSkipped,    // illegal, and counted
};

// Phase 1: the next entry's position. Either a chain begins, and the entry is complete, or the previous move is played.

// Reads the stem of the next chain: its first entry, and the number of the others.
[[nodiscard, gnu::noinline]] inline EntryStatus read_chain_start(ChunkState& state) {
    const std::uint64_t begin = (state.bit + 7) / 8;  // chains begin at whole bytes
    if (state.payload.size() < begin + kSmallestChain) return EntryStatus::kEnd;
    const std::uint8_t* bytes = state.payload.data() + begin;
    state.chain_begin = begin;
    state.entry_index = 0;
    state.fault = read_stem(bytes, state.entry);
    if (state.fault != Fault::kNone) return EntryStatus::kEnd;
    ++state.chains;
    state.remaining = load_big_endian16(bytes + kStemBytes);
    state.bit = 8 * (begin + kSmallestChain);
    return EntryStatus::kComplete;
}

// Counts an illegal entry as skipped and returns true, or makes it the walk's fault, as the options say.
[[nodiscard, gnu::noinline, gnu::cold]] inline bool skip_or_stop(ChunkState& state, chess::Illegal illegal) {
    if (state.options.on_illegal == chess::OnIllegal::kSkip) {
        state.skipped->add_entry(illegal, describe(illegal), state.payload_begin + state.chain_begin,
                                 state.entry_index);
        return true;
    }
    state.illegal = illegal;
    state.fault = Fault::kIllegal;
    return false;
}

[[nodiscard]] inline bool skip_chain(ChunkState& state, chess::Illegal illegal);

// Returns what is illegal about a chain's first entry: its position, unless next_entry checks every position, or its
// move.
[[nodiscard]] inline chess::Illegal find_illegal_stem(const ChunkState& state) {
    if (state.options.on_illegal != chess::OnIllegal::kKeep && !state.options.every_position) {
        const chess::Illegal illegal = chess::find_illegal(state.entry.position);
        if (illegal != chess::Illegal::kNone) return illegal;
    }
    if (!state.options.checks_moves || find_move_problem(state.entry) == nullptr) return chess::Illegal::kNone;
    return chess::Illegal::kMove;
}

// Begins the next chain. One that begins with an illegal entry is skipped as a whole. But behind an impossible move the
// chain's text can't be decoded: then the chain must have no other entries.
[[nodiscard, gnu::noinline]] inline EntryStatus begin_chain(ChunkState& state) {
    while (read_chain_start(state) == EntryStatus::kComplete) {
        const chess::Illegal illegal = find_illegal_stem(state);
        if (illegal == chess::Illegal::kNone) [[likely]]
            return EntryStatus::kComplete;
        if (illegal == chess::Illegal::kMove && state.remaining != 0) {
            state.illegal = illegal;
            state.fault = Fault::kIllegal;
            return EntryStatus::kEnd;
        }
        if (!skip_chain(state, illegal)) return EntryStatus::kEnd;
    }
    return EntryStatus::kEnd;
}

// Whether a decoded move can be impossible. Decoded moves are destinations of their pieces, so only castling and the
// capture of a king can be.
[[nodiscard, gnu::always_inline]] inline bool may_be_impossible(const chess::Entry& entry) {
    return (entry.move.type() == chess::MoveType::kCastling) |
           ((entry.position.kings() & chess::bit_of(entry.move.to())) != 0);
}

// Checks the move of an entry that others follow. Without its move their text can't be decoded, so it can't be skipped.
[[nodiscard, gnu::noinline]] inline EntryStatus check_inner_move(ChunkState& state) {
    if (!state.options.checks_moves || find_move_problem(state.entry) == nullptr) return EntryStatus::kComplete;
    state.illegal = chess::Illegal::kMove;
    state.fault = Fault::kIllegal;
    return EntryStatus::kEnd;
}

// Checks the move of a chain's last entry, which is never played.
[[nodiscard, gnu::noinline]] inline EntryStatus check_last_move(ChunkState& state) {
    if (!state.options.checks_moves || find_move_problem(state.entry) == nullptr) return EntryStatus::kComplete;
    return skip_or_stop(state, chess::Illegal::kMove) ? EntryStatus::kSkipped : EntryStatus::kEnd;
}

[[nodiscard, gnu::always_inline]] inline EntryStatus start_entry(ChunkState& state) {
    if (state.fault != Fault::kNone) [[unlikely]]
        return EntryStatus::kEnd;
    if (state.remaining == 0) [[unlikely]]
        return begin_chain(state);
    ++state.entry_index;
    --state.remaining;
    const chess::MoveFault fault = chess::play(state.entry.position, state.entry.move);
    if (fault == chess::MoveFault::kNone) [[likely]]
        return EntryStatus::kNeedsMove;
    state.fault = to_fault(fault);
    return EntryStatus::kEnd;
}

// Phase 2: which piece moves, and where it may go.
[[nodiscard, gnu::always_inline]] inline EntryStatus read_piece(ChunkState& state, MoveReader& reader) {
    const chess::Position& position = state.entry.position;
    reader.bits = load_bits(state.payload, state.bit);
    reader.used_bits = 0;
    const Bitboard own = position.of_colour(position.side);
    const unsigned num_pieces = chess::count_squares(own);
    const unsigned index = reader.read_bits(index_bits(num_pieces));
    if (index >= num_pieces) [[unlikely]] {
        state.fault = advance(state, reader, Fault::kIndexTooLarge);
        return EntryStatus::kEnd;
    }
    reader.from = chess::nth_square(own, index);
    reader.type = position.type_at(reader.from);
    reader.targets = destinations(position, own, reader.type, reader.from);
    return EntryStatus::kNeedsMove;
}

// Decodes the index of a promotion (4 * target + piece) or of castling (behind the targets: queen-side, then
// king-side). Fewer than two of a hundred moves are such.
[[nodiscard, gnu::noinline]] inline chess::Move decode_rare_move(const chess::Position& position,
                                                                 const MoveReader& reader, unsigned index,
                                                                 unsigned num_targets) {
    if (reader.type == chess::kPawn) {
        const unsigned to = chess::nth_square(reader.targets, index / 4);
        return encode_move(chess::MoveType::kPromotion, reader.from, to, index % 4);
    }
    const bool queen_side = index == num_targets && (own_castling(position) & 2) != 0;
    const unsigned base = position.side == chess::kWhite ? 0 : 56;
    return encode_move(chess::MoveType::kCastling, base + chess::kE1, base + (queen_side ? chess::kA1 : chess::kH1));
}

// Reads the index of the move among the piece's moves.
[[nodiscard]] inline Fault read_target(const chess::Position& position, MoveReader& reader, chess::Move& move) {
    const bool is_pawn = reader.type == chess::kPawn;
    const bool promotes = is_pawn & chess::promotes_next(position.side, reader.from);
    const auto is_king_mask = static_cast<unsigned>(chess::kMovements.data()[reader.type].king);
    const unsigned rights = own_castling(position) & is_king_mask;
    const unsigned num_castlings = (rights & 1) + (rights >> 1);
    const unsigned num_targets = chess::count_squares(reader.targets);
    const unsigned num_moves = (num_targets << (promotes ? 2 : 0)) + num_castlings;
    const unsigned index = reader.read_bits(index_bits(num_moves));
    if (index >= num_moves) [[unlikely]]
        return Fault::kIndexTooLarge;
    if (promotes | (index >= num_targets)) [[unlikely]] {
        move = decode_rare_move(position, reader, index, num_targets);
        return Fault::kNone;
    }
    const unsigned to = chess::nth_square(reader.targets, index);
    const bool is_en_passant = is_pawn & (to == position.ep_square);
    move = encode_move(is_en_passant ? chess::MoveType::kEnPassant : chess::MoveType::kNormal, reader.from, to);
    return Fault::kNone;
}

// Reads a score: the zigzag code of its sum with the previous score, in up to four groups of five bits, the lowest four
// bits of the code first. A group is a bit that says that another group comes, and four bits of the code.
[[nodiscard]] inline Fault read_score(MoveReader& reader, std::int16_t previous, std::int16_t& score) {
#if defined(__BMI2__)
    // All four groups at once, without a branch on how many there are.
    const std::uint64_t groups = reader.bits >> 44;  // 20 bits
    const auto continues = static_cast<unsigned>(chess::extract_bits(groups, 0b1000'0100'0010'0001'0000));
    const auto nibbles = static_cast<unsigned>(chess::extract_bits(groups, 0b0111'1011'1101'1110'1111));
    const unsigned num_groups =
        1 + static_cast<unsigned>(__builtin_clz(~(continues << 28)));  // 5: none of four is last
    const unsigned present = nibbles & (0xFFFF0000U >> (4 * num_groups));
    // The first group is the highest nibble, but the lowest of the code: reverse the nibbles.
    const unsigned bytes_swapped = (present << 8 | present >> 8) & 0xFFFF;
    const unsigned code = (bytes_swapped << 4 & 0xF0F0) | (bytes_swapped >> 4 & 0x0F0F);
    reader.used_bits += num_groups == 5 ? 20 : 5 * num_groups;
    if (num_groups == 5) [[unlikely]]
        return Fault::kScoreTooLong;
#else
    unsigned code = 0;
    bool continues = true;
    for (unsigned shift = 0; continues; shift += 4) {
        if (shift == 16) return Fault::kScoreTooLong;
        const unsigned group = reader.read_bits(5);
        code |= (group & 15) << shift;
        continues = (group & 16) != 0;
    }
#endif
    score = static_cast<std::int16_t>(unzigzag(static_cast<std::uint16_t>(code)) - previous);
    return Fault::kNone;
}

// Phase 3: where the piece goes, and the score.
[[nodiscard, gnu::always_inline]] inline EntryStatus read_move_and_score(ChunkState& state, MoveReader& reader) {
    chess::Entry& entry = state.entry;
    chess::Move move;
    std::int16_t score = 0;
    Fault fault = read_target(entry.position, reader, move);
    if (fault == Fault::kNone) [[likely]]
        fault = read_score(reader, entry.score, score);
    state.fault = advance(state, reader, fault);
    if (state.fault != Fault::kNone) [[unlikely]]
        return EntryStatus::kEnd;
    entry.move = move;
    entry.score = score;
    entry.ply = chess::saturating_increment(entry.ply);
    entry.result = static_cast<std::int8_t>(-entry.result);
    if (state.remaining == 0) [[unlikely]]
        return check_last_move(state);
    if (may_be_impossible(entry)) [[unlikely]]
        return check_inner_move(state);
    return EntryStatus::kComplete;
}

// Steps to the next entry whose move is not skipped. Returns false at the end of the payload or at a fault.
[[nodiscard]] inline bool read_next_good_move(ChunkState& state) {
    EntryStatus status = EntryStatus::kSkipped;
    while (status == EntryStatus::kSkipped) {
        MoveReader reader;
        status = start_entry(state);
        if (status == EntryStatus::kNeedsMove) status = read_piece(state, reader);
        if (status == EntryStatus::kNeedsMove) status = read_move_and_score(state, reader);
    }
    return status == EntryStatus::kComplete;
}

// Skips all entries of a chain, of which the first is illegal and has just been read. Returns false at a fault.
[[nodiscard]] inline bool skip_chain(ChunkState& state, chess::Illegal illegal) {
    bool continues = skip_or_stop(state, illegal);
    const bool checks_moves = std::exchange(state.options.checks_moves, false);  // so that no entry is counted twice
    while (continues && state.remaining != 0) continues = read_next_good_move(state) && skip_or_stop(state, illegal);
    state.options.checks_moves = checks_moves;
    return continues;
}

// Steps to the next good entry. Returns false at the end of the payload and at a fault, and from then on.
[[nodiscard]] inline bool next_entry(ChunkState& state) {
    while (read_next_good_move(state)) {
        if (state.options.on_illegal == chess::OnIllegal::kKeep || !state.options.every_position) return true;
        const chess::Illegal illegal = chess::find_illegal(state.entry.position);
        if (illegal == chess::Illegal::kNone) [[likely]]
            return true;
        if (!skip_or_stop(state, illegal)) return false;
    }
    return false;
}

}  // namespace SPARSEPOOL_ISA
}  // namespace sparsepool::binpack
