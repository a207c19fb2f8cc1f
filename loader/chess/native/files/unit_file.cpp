#include "chess/native/files/unit_file.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "compression/unpacker.h"

namespace sparsepool::chess {
namespace {

constexpr std::uint64_t kScanBytes = 4 << 20;  // read at once, looking for the ends of units
constexpr std::uint64_t kMaxPiece = packed::kMostBytes;

// Whether these can be the borders of the pieces of a file of this size.
bool are_possible_borders(const std::vector<std::uint64_t>& borders, std::uint64_t size) {
    return !borders.empty() && borders.front() == 0 && borders.back() <= size &&
           std::ranges::is_sorted(borders, std::less_equal<>());
}

}  // namespace

// Opens a file of records or games, plain or compressed as its first bytes say.
OpenedFile Codec::open(const std::string& path, std::optional<ExpectedFile> expected, const ReadOptions& options,
                       std::optional<std::vector<std::uint64_t>> borders) const {
    const FileDescriptor descriptor(path);
    std::optional<FileFault> fault = descriptor.opening_fault(expected);
    if (fault) return {nullptr, std::move(*fault)};
    const std::uint64_t size = expected->identity.size;
    std::array<std::uint8_t, packed::kMagicBytes> magic{};
    const auto head = std::span(magic).first(std::min<std::uint64_t>(size, magic.size()));
    fault = descriptor.read(head, 0);
    if (fault) return {nullptr, std::move(*fault)};
    if (const auto packing = packed::packing_of(head)) {
        if (packing->missing != nullptr) return {nullptr, {.reason = packing->missing}};
        return {std::make_shared<PackedUnitFile>(path, expected, size, *this, options, packing->make), {}};
    }
    const auto file = std::make_shared<PlainUnitFile>(path, expected, size, *this, options);
    fault = file->find_pieces(descriptor, std::move(borders));
    if (!fault) fault = descriptor.change(expected);
    if (fault) return {nullptr, std::move(*fault)};
    return {file, {}};
}

std::optional<FileFault> PlainUnitFile::find_pieces(const FileDescriptor& file,
                                                    std::optional<std::vector<std::uint64_t>> borders) {
    begins_ = {0};
    const std::uint64_t unit_bytes = codec_.unit_bytes();
    if (unit_bytes != 0) {
        whole_size_ = size_ - size_ % unit_bytes;
        const std::uint64_t piece_bytes = kPiece / unit_bytes * unit_bytes;
        while (begins_.back() < whole_size_) begins_.push_back(std::min(begins_.back() + piece_bytes, whole_size_));
    } else if (borders && are_possible_borders(*borders, size_)) {
        begins_ = std::move(*borders);
        whole_size_ = begins_.back();
    } else {
        if (std::optional<FileFault> fault = scan_pieces(file)) return fault;
    }
    if (begins_.back() < size_) begins_.push_back(size_);
    return std::nullopt;
}

// Reads the file to find the ends of its units. A piece ends with the first unit that ends 1 MiB or more behind the
// beginning of the piece.
std::optional<FileFault> PlainUnitFile::scan_pieces(const FileDescriptor& file) {
    std::string bytes;        // of the file from `begin` on
    std::uint64_t begin = 0;  // of the first piece whose end is not found yet
    while (begin < size_) {
        const std::uint64_t old_size = bytes.size();
        const std::uint64_t added = std::min(kScanBytes, size_ - begin - old_size);
        bytes.resize(old_size + added);
        const std::span out(reinterpret_cast<std::uint8_t*>(bytes.data()) + old_size, added);
        if (std::optional<FileFault> fault = file.read(out, begin + old_size)) return fault;
        const bool is_last = begin + bytes.size() == size_;
        const std::size_t open_piece = add_pieces(bytes, begin);
        if (is_last || bytes.size() - open_piece > kMaxPiece) break;
        bytes.erase(0, open_piece);
        begin += open_piece;
    }
    if (whole_size_ > begins_.back()) begins_.push_back(whole_size_);
    return std::nullopt;
}

// Adds the pieces that end in `bytes`, which begin at `begin` of the file. Returns where in `bytes` the next one
// begins.
std::size_t PlainUnitFile::add_pieces(std::string_view bytes, std::uint64_t begin) {
    std::size_t piece_begin = 0;
    std::size_t unit_end = codec_.scanned_units()->find_end(bytes, 0);
    while (unit_end != std::string_view::npos) {
        whole_size_ = begin + unit_end;
        if (unit_end - piece_begin >= kPiece) {
            begins_.push_back(whole_size_);
            piece_begin = unit_end;
        }
        unit_end = codec_.scanned_units()->find_end(bytes, unit_end);
    }
    return piece_begin;
}

std::vector<std::uint64_t> PlainUnitFile::borders() const {
    std::vector<std::uint64_t> borders = begins_;
    if (borders.back() > whole_size_) borders.pop_back();
    return borders;
}

// Reads a piece. If the file has changed, the piece is empty and has a fault.
Piece PlainUnitFile::read(std::size_t piece) const {
    Piece read;
    read.begin = begins_[piece];
    const std::uint64_t size = begins_[piece + 1] - read.begin;
    if (size > kMaxPiece) {
        read.fault =
            stream::SourceFault{path_, read.begin, std::string("a ") + codec_.units().word() + " of more than 1 GiB"};
        return read;
    }
    const FileDescriptor file(path_);
    std::optional<FileFault> fault = file.reopening_fault();
    if (!fault) {
        read.bytes.resize(size);
        fault = file.read({reinterpret_cast<std::uint8_t*>(read.bytes.data()), size}, read.begin);
        if (std::optional<FileFault> changed = file.change(expected_)) fault = std::move(changed);
    }
    if (fault) {
        read.bytes.clear();
        read.fault = EntryFile::fault_of(std::move(*fault), read.begin);
    }
    return read;
}

stream::SourceFault PlainUnitFile::fault_of(std::size_t piece, const Piece& read, const Damage& damage) const {
    std::uint64_t units_before = 0;  // of the piece; only texts number their units, so only they are counted
    if (codec_.is_text()) {
        for (std::size_t i = 0; i < piece; ++i) units_before += codec_.units().count(this->read(i).bytes);
    }
    return {path_, read.begin + damage.offset, unit_prefix(units_before + damage.unit) + damage.reason};
}

stream::SourceFault PackedUnitFile::fault_of(std::size_t piece, const Piece& read, const Damage& damage) const {
    return {path_, offset(piece),
            "byte " + std::to_string(read.begin + damage.offset) +
                " of what is decoded: " + unit_prefix(read.first_unit + damage.unit) + damage.reason};
}

}  // namespace sparsepool::chess
