#include "chess/native/files/printer.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "chess/native/record.h"

namespace sparsepool::chess {
namespace {

char* write_field(int number, char* out) {
    *out++ = '\t';
    return std::to_chars(out, out + 8, number).ptr;
}

char* write_none(char* out) { return std::ranges::copy(std::string_view("\tnone"), out).out; }

}  // namespace

// An unknown ply or result is `none`.
char* write_line(const Entry& entry, unsigned move_number, char* out) {
    out = write_fen(entry.position, move_number, out);
    *out++ = '\t';
    out = write_uci(entry.move, entry.position.chess960, out);
    out = write_field(entry.score, out);
    out = (entry.missing_parts & kPlyPart) != 0 ? write_none(out) : write_field(entry.ply, out);
    out = entry.result == kNoResult ? write_none(out) : write_field(entry.result, out);
    *out++ = '\n';
    return out;
}

}  // namespace sparsepool::chess
