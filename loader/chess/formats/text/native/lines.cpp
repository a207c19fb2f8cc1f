#include "chess/formats/text/native/lines.h"

namespace sparsepool::text {

chess::Piece LinePieces::read(std::size_t piece) const {
    rows::Piece found = lines_->read(piece);
    found.text.pop_back();  // the line feed that does not count
    return {std::move(found.text), 0, found.first_line.value_or(0), std::move(found.fault)};
}

stream::SourceFault LinePieces::fault_of(std::size_t piece, const chess::Piece& read,
                                         const chess::Damage& damage) const {
    const std::optional<std::uint64_t> before = is_packed() ? read.first_unit : lines_->lines_before(piece);
    const std::string line = before ? std::to_string(*before + damage.unit + 1) : "unknown";
    const std::uint64_t at = offset(piece) + (is_packed() ? 0 : damage.offset);
    return {path_, at, "line " + line + ": " + damage.reason};
}

}  // namespace sparsepool::text
