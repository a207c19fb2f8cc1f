#include "chess/native/census/census.h"

#include <algorithm>
#include <cstdlib>

#include "chess/native/board/position.h"
#include "chess/native/filters/pieces.h"

namespace sparsepool::chess {
namespace {

void count_kings(Census& census, const Record& record, const PieceSets& pieces) {
    const unsigned mover = record.flags & kBlackToMove;
    const unsigned flip = mover == kBlack ? 56U : 0U;
    ++census.own_kings[pieces.king(mover) ^ flip];
    ++census.opponent_kings[pieces.king(mover ^ 1U) ^ flip];
}

void count_move(Census& census, const Record& record) {
    if (record.move == 0) {
        ++census.no_move;
        return;
    }
    ++census.move_types[record.move >> 14];
    census.captures += is_plain_capture(record) ? 1U : 0U;
}

// Counts the score by result, and where the ply is known and the score not too large, by score and ply.
void count_score(Census& census, const Record& record) {
    const int score = record.score;
    const int result_row = record.result() == kNoResult ? 3 : record.result() + 1;
    const std::size_t result_begin = static_cast<std::size_t>(result_row) * Census::kScores;
    ++census.scores[result_begin + static_cast<std::size_t>(score + 32768)];
    if (score < -Census::kLastScore || score >= Census::kLastScore) return;
    if ((record.flags & kNoPly) != 0) return;
    const auto column = static_cast<std::size_t>((score + Census::kLastScore) / Census::kScoreStep);
    const std::size_t row = std::min<std::size_t>(record.ply / Census::kPlyStep, Census::kPlySteps - 1);
    ++census.score_plies[column * Census::kPlySteps + row];
}

// Counts whether a label of the mover agrees with the material. `material_lead`: the mover's material less the
// opponent's.
void count_sign(Census::Counts& signs, unsigned mover, int label, int material_lead) {
    const int sign = (label > 0) - (label < 0);
    const int agreement = material_lead > 0 ? sign : -sign;  // -1, 0, 1
    ++signs[mover * Census::kSigns + static_cast<std::size_t>(agreement + 1)];
}

void count_signs(Census& census, const Record& record, const PieceSets& pieces) {
    const unsigned mover = record.flags & kBlackToMove;
    const int material_lead = pieces.material(mover) - pieces.material(mover ^ 1U);
    if (std::abs(material_lead) < Census::kClearMaterial) return;
    if (record.score != kNoScore) count_sign(census.score_signs, mover, record.score, material_lead);
    if (record.result() != kNoResult) count_sign(census.result_signs, mover, record.result(), material_lead);
}

void add_counts(Census::Counts& to, const Census::Counts& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

}  // namespace

void Census::add(std::span<const Record> records) {
    entries += records.size();
    for (const Record& record : records) {
        const PieceSets pieces(record);
        white_to_move += (record.flags & kBlackToMove) == 0 ? 1U : 0U;
        in_check += (record.flags & kInCheck) != 0 ? 1U : 0U;
        ++piece_counts[count_squares(record.occupied)];
        ++phases[static_cast<std::size_t>(pieces.phase())];
        ++materials[static_cast<std::size_t>(pieces.material())];
        if ((record.flags & kNoPly) == 0) ++plies[record.ply];
        count_kings(*this, record, pieces);
        count_move(*this, record);
        count_score(*this, record);
        count_signs(*this, record, pieces);
    }
}

void Census::add_length(std::uint64_t length) { ++lengths[std::min<std::uint64_t>(length, kPlies - 1)]; }

void Census::add(const Census& other) {
    entries += other.entries;
    white_to_move += other.white_to_move;
    in_check += other.in_check;
    captures += other.captures;
    no_move += other.no_move;
    for (const auto counts : {&Census::move_types, &Census::piece_counts, &Census::phases, &Census::materials,
                              &Census::own_kings, &Census::opponent_kings, &Census::scores, &Census::plies,
                              &Census::score_plies, &Census::lengths, &Census::score_signs, &Census::result_signs}) {
        add_counts(this->*counts, other.*counts);
    }
}

}  // namespace sparsepool::chess
