#include "chess/native/formats/game_writer.h"

#include "chess/native/formats/marlin_record.h"
#include "chess/native/formats/storable.h"

namespace sparsepool::chess {
namespace {

void append_u16(std::vector<std::uint8_t>& bytes, unsigned value) {
    bytes.push_back(static_cast<std::uint8_t>(value));
    bytes.push_back(static_cast<std::uint8_t>(value >> 8));
}

}  // namespace

// Whether the entry's position is that after the last move, with the same result and the next ply.
bool GameWriter::continues_game(const Entry& entry) const {
    if (!open_) return false;
    const bool both_lack_ply = (entry.missing_parts & last_.missing_parts & kPlyPart) != 0;
    const bool is_next_ply = both_lack_ply || entry.ply == saturating_increment(last_.ply);
    const bool is_same_result = entry.result == static_cast<std::int8_t>(-last_.result);
    return is_same_result && entry.missing_parts == last_.missing_parts && is_next_ply &&
           are_equal(entry.position, next_);
}

// Writes the entry's move, at the beginning of a game behind a header.
std::string GameWriter::add(const Entry& entry) {
    if (const char* problem = find_stored_move_problem(entry)) return problem;
    if (const char* problem = find_entry_problem(entry)) return problem;
    if (!continues_game(entry)) {
        if (const char* problem = find_start_problem(entry)) return problem;
        finish();
        begin_game(entry);
        open_ = true;
    }
    write_move(entry);
    last_ = entry;
    next_ = position_after(entry);
    ++entries_;
    return {};
}

void GameWriter::finish() {
    if (open_) end_game(last_);
    open_ = false;
}

const char* WordGameWriter::find_entry_problem(const Entry& entry) const {
    std::int16_t white_score = 0;
    if (const char* problem = find_result_problem(entry)) return problem;
    return to_white_score(entry, white_score);
}

void WordGameWriter::begin_game(const Entry& entry) {
    append_header(output_, entry);
    count_changes(entry, kMarlinKeeps, kMarlinClock);
}

void WordGameWriter::write_move(const Entry& entry) {
    std::int16_t white_score = 0;
    (void)to_white_score(entry, white_score);
    count_unscored(entry);
    append_u16(output_, encode_move_word(entry));
    append_u16(output_, static_cast<std::uint16_t>(white_score));
}

void WordGameWriter::end_game(const Entry&) { output_.insert(output_.end(), 4, 0); }

}  // namespace sparsepool::chess
