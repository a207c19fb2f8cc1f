#include "lines/packed_file.h"

#include <algorithm>
#include <utility>

namespace sparsepool::lines {

std::size_t LineUnits::whole(std::string_view bytes, std::size_t searched) const {
    const std::size_t feed = bytes.substr(searched).find_last_of('\n');
    return feed == std::string_view::npos ? 0 : searched + feed + 1;
}

std::uint64_t LineUnits::count(std::string_view whole) const {
    return static_cast<std::uint64_t>(std::ranges::count(whole, '\n'));
}

Piece PackedFile::read(std::size_t piece) const {
    packed::Piece decoded = sequence_.read(piece);
    decoded.bytes += '\n';
    return {std::move(decoded.bytes), decoded.first_unit, std::move(decoded.fault)};
}

}  // namespace sparsepool::lines
