#include "chess/native/formats/game_writer.h"

#include "chess/native/formats/marlin_record.h"
#include "chess/native/formats/storable.h"

namespace sparsepool::chess {
namespace {

void put16(std::vector<std::uint8_t>& bytes, unsigned value) {
    bytes.push_back(static_cast<std::uint8_t>(value));
    bytes.push_back(static_cast<std::uint8_t>(value >> 8));
}

}  // namespace

bool GameWriter::follows(const Entry& entry) const {
    const bool lacks_ply = (entry.lacks & last_.lacks & kPlyPart) != 0;
    const bool next_ply = entry.lacks == last_.lacks && (lacks_ply || entry.ply == one_more(last_.ply));
    const bool same_result = entry.result == static_cast<std::int8_t>(-last_.result);
    return open_ && same_result && next_ply && is_same(entry.position, next_);
}

std::string GameWriter::add(const Entry& entry) {
    if (const char* wrong = why_no_move(entry)) return wrong;
    if (const char* wrong = why_no_entry(entry)) return wrong;
    if (!follows(entry)) {
        if (const char* wrong = why_no_start(entry)) return wrong;
        finish();
        begin_game(entry);
        open_ = true;
    }
    put_move(entry);
    last_ = entry;
    next_ = after(entry);
    ++entries_;
    return {};
}

void GameWriter::finish() {
    if (open_) end_game(last_);
    open_ = false;
}

const char* WordGameWriter::why_no_entry(const Entry& entry) const {
    std::int16_t white_score = 0;
    if (const char* wrong = why_no_result(entry)) return wrong;
    return why_no_white_score(entry, white_score);
}

void WordGameWriter::begin_game(const Entry& entry) {
    put_header(done_, entry);
    count_changes(entry, kMarlinKeeps, kMarlinClock);
}

void WordGameWriter::put_move(const Entry& entry) {
    std::int16_t white_score = 0;
    (void)why_no_white_score(entry, white_score);
    count_unscored(entry);
    put16(done_, word_of(entry));
    put16(done_, static_cast<std::uint16_t>(white_score));
}

void WordGameWriter::end_game(const Entry&) { done_.insert(done_.end(), 4, 0); }

}  // namespace sparsepool::chess
