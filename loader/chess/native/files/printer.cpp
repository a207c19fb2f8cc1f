#include "chess/native/files/printer.h"

#include <charconv>

namespace sparsepool::chess {
namespace {

char* write_field(int number, char* out) {
    *out++ = '\t';
    return std::to_chars(out, out + 8, number).ptr;
}

}  // namespace

char* write_line(const Entry& entry, unsigned move_number, char* out) {
    out = write_fen(entry.position, move_number, out);
    *out++ = '\t';
    out = write_uci(entry.move, out);
    out = write_field(entry.score, out);
    out = write_field(entry.ply, out);
    out = write_field(entry.result, out);
    *out++ = '\n';
    return out;
}

}  // namespace sparsepool::chess
