#include "chess/native/files/reader.h"

#include <algorithm>
#include <utility>

namespace sparsepool::chess {
namespace {

using stream::SourceFault;

constexpr std::size_t kBlock = 1024;  // entries, which stay in a core's cache until they are filtered

}  // namespace

FileReader::FileReader(std::vector<std::shared_ptr<const EntryFile>> files) : files_(std::move(files)) {
    for (const auto& file : files_) {
        for (std::size_t piece = 0; piece < file->num_pieces(); ++piece) chunks_.push_back({file.get(), piece});
    }
    legal_ = std::make_unique<std::atomic<bool>[]>(chunks_.size());
}

std::string FileReader::name() const {
    if (files_.empty()) return "no file";
    const std::string more = files_.size() == 1 ? "" : " and " + std::to_string(files_.size() - 1) + " more";
    return files_.front()->path() + more;
}

bool FileReader::in_file_order() const {
    return std::ranges::any_of(files_, [](const auto& file) { return file->is_packed(); });
}

void FileReader::read(std::span<Reading> readings, bool checks, const Appended& appended) const {
    for (std::size_t i = 0; i < readings.size(); ++i) {
        Reading& reading = readings[i];
        const auto [file, number] = chunks_[reading.chunk];
        Piece piece = file->read(number);
        const bool had = !piece.fault || piece.fault->kind == SourceFault::Kind::kDamaged;
        const std::span bytes(reinterpret_cast<const std::uint8_t*>(piece.bytes.data()), piece.bytes.size());
        if (had && !sums_.agrees(reading.chunk, bytes)) {
            reading.fault = SourceFault{file->path(), file->offset(number),
                                        "the entries from here on have other bytes than when they were read first",
                                        SourceFault::Kind::kChanged};
            continue;
        }
        Demands demands = file->demands();
        if (legal_[reading.chunk].load(std::memory_order_relaxed)) demands.on_illegal = OnIllegal::kKeep;
        Walk walk = file->walk(piece, demands);
        std::size_t count = 0;
        do {
            count = walk.read(reading.records->room<Record>(kBlock), kBlock, checks);
            reading.records->grow(count);
            appended(i);
        } while (count == kBlock);
        const std::optional<Damage> damage = walk.damage();
        reading.fault = damage ? file->fault_of(number, piece, *damage) : std::move(piece.fault);
        const bool legal = !reading.fault && walk.illegal().first() == nullptr;
        legal_[reading.chunk].store(legal, std::memory_order_relaxed);
        if (const IllegalTally::Kind* first = walk.illegal().first()) {
            reading.left_out =
                file->fault_of(number, piece, {first->offset, first->unit, walk.illegal().describe(), false});
        }
    }
}

}  // namespace sparsepool::chess
