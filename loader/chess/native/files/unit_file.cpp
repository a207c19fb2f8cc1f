#include "chess/native/files/unit_file.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "compression/unpacker.h"

namespace sparsepool::chess {
namespace {

constexpr std::uint64_t kScanned = 4 << 20;  // bytes at once, looking for units
constexpr std::uint64_t kLongest = packed::kMostBytes;

// Sound borders: those of pieces that a file of that size can have.
bool fits(const std::vector<std::uint64_t>& borders, std::uint64_t size) {
    return !borders.empty() && borders.front() == 0 && borders.back() <= size &&
           std::ranges::is_sorted(borders, std::less_equal<>());
}

}  // namespace

// Records or games, plain or compressed by the first bytes.
OpenedFile Codec::open(const std::string& path, std::optional<ExpectedFile> expected, const ReadOptions& options,
                       std::optional<std::vector<std::uint64_t>> borders) const {
    const FileDescriptor descriptor(path);
    std::optional<FileFault> fault = descriptor.opening_fault(expected);
    if (fault) return {nullptr, std::move(*fault)};
    const std::uint64_t size = expected->identity.size;
    std::array<std::uint8_t, packed::kMagicBytes> bytes{};
    const auto head = std::span(bytes).first(std::min<std::uint64_t>(size, bytes.size()));
    fault = descriptor.read(head, 0);
    if (!fault) {
        if (const auto packing = packed::packing_of(head)) {
            if (packing->missing != nullptr) return {nullptr, {.reason = packing->missing}};
            return {std::make_shared<PackedUnitFile>(path, expected, size, *this, options, packing->make), {}};
        }
        const auto file = std::make_shared<PlainUnitFile>(path, expected, size, *this, options);
        fault = file->cut(descriptor, std::move(borders));
        if (!fault) fault = descriptor.change(expected);
        if (!fault) return {file, {}};
    }
    return {nullptr, std::move(*fault)};
}

std::optional<FileFault> PlainUnitFile::cut(const FileDescriptor& file,
                                            std::optional<std::vector<std::uint64_t>> borders) {
    begins_ = {0};
    const std::uint64_t unit = codec_.unit_bytes();
    if (unit != 0) {
        whole_size_ = size_ - size_ % unit;
        const std::uint64_t piece = kPiece / unit * unit;
        while (begins_.back() < whole_size_) begins_.push_back(std::min(begins_.back() + piece, whole_size_));
    } else if (borders && fits(*borders, size_)) {
        begins_ = std::move(*borders);
        whole_size_ = begins_.back();
    } else {
        if (std::optional<FileFault> fault = find_units(file)) return fault;
    }
    if (begins_.back() < size_) begins_.push_back(size_);
    return std::nullopt;
}

// A piece ends with the first unit that ends at or behind 1 MiB of it.
std::optional<FileFault> PlainUnitFile::find_units(const FileDescriptor& file) {
    std::string bytes;        // from `begin` on
    std::uint64_t begin = 0;  // of the first unit that is not in a whole piece yet
    while (begin < size_) {
        const std::uint64_t there = bytes.size();
        const std::uint64_t more = std::min(kScanned, size_ - begin - there);
        bytes.resize(there + more);
        const std::span out(reinterpret_cast<std::uint8_t*>(bytes.data()) + there, more);
        if (std::optional<FileFault> fault = file.read(out, begin + there)) return fault;
        const bool last = begin + bytes.size() == size_;
        std::size_t piece = 0;  // where the one begins that units are added to
        std::size_t end = 0;    // of the last whole unit
        while ((end = codec_.scanned_units()->find_end(bytes, end)) != std::string::npos) {
            whole_size_ = begin + end;
            if (end - piece < kPiece) continue;
            begins_.push_back(whole_size_);
            piece = end;
        }
        if (last || bytes.size() - piece > kLongest) break;
        bytes.erase(0, piece);
        begin += piece;
    }
    if (whole_size_ > begins_.back()) begins_.push_back(whole_size_);
    return std::nullopt;
}

std::vector<std::uint64_t> PlainUnitFile::borders() const {
    std::vector<std::uint64_t> borders = begins_;
    if (borders.back() > whole_size_) borders.pop_back();
    return borders;
}

Piece PlainUnitFile::read(std::size_t piece) const {
    Piece read;
    read.begin = begins_[piece];
    const std::uint64_t size = begins_[piece + 1] - read.begin;
    if (size > kLongest) {
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
    std::uint64_t before = 0;  // units, which nobody has counted
    for (std::size_t i = 0; codec_.is_text() && i < piece; ++i) before += codec_.units().count(this->read(i).bytes);
    return {path_, read.begin + damage.offset, describe(before + damage.unit) + damage.reason};
}

stream::SourceFault PackedUnitFile::fault_of(std::size_t piece, const Piece& read, const Damage& damage) const {
    return {path_, offset(piece),
            "byte " + std::to_string(read.begin + damage.offset) +
                " of what is decoded: " + describe(read.first_unit + damage.unit) + damage.reason};
}

}  // namespace sparsepool::chess
