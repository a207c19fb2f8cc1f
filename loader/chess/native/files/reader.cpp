#include "chess/native/files/reader.h"

#include <algorithm>
#include <utility>

namespace sparsepool::chess {
namespace {

using stream::SourceFault;

constexpr std::size_t kBlock = 512;  // entries: those of four chunks stay in a core's cache until they are filtered

}  // namespace

FileReader::FileReader(std::vector<std::shared_ptr<const EntryFile>> files) : files_(std::move(files)) {
    for (const auto& file : files_) {
        for (std::size_t piece = 0; piece < file->num_pieces(); ++piece) chunks_.push_back({file.get(), piece});
    }
    good_ = std::make_unique<std::atomic<bool>[]>(chunks_.size());
}

std::string FileReader::name() const {
    if (files_.empty()) return "no file";
    const std::string more = files_.size() == 1 ? "" : " and " + std::to_string(files_.size() - 1) + " more";
    return files_.front()->path() + more;
}

bool FileReader::in_file_order() const {
    return std::ranges::any_of(files_, [](const auto& file) { return file->is_packed(); });
}

struct FileReader::OpenChunk {
    std::size_t index;  // of its reading
    Piece piece;
    std::unique_ptr<Walk> walk;
};

// Reads the bytes of a chunk, compares them with those of the first read, and begins a walk through them.
std::unique_ptr<FileReader::OpenChunk> FileReader::open(Reading& reading, std::size_t index) const {
    const auto [file, piece_index] = chunks_[reading.chunk];
    auto opened = std::make_unique<OpenChunk>(OpenChunk{index, file->read(piece_index), nullptr});
    const Piece& piece = opened->piece;
    const bool has_bytes = !piece.fault || piece.fault->kind == SourceFault::Kind::kDamaged;
    if (has_bytes && !sums_.record_or_verify(reading.chunk, span_of(piece.bytes), file->sum_before(piece_index))) {
        reading.fault =
            SourceFault{file->path(), file->offset(piece_index), file->describe_change(), SourceFault::Kind::kChanged};
        return nullptr;
    }
    ReadOptions options = file->options();
    if (good_[reading.chunk].load(std::memory_order_relaxed)) options = trusted_options(options);
    opened->walk = file->walk(piece, options);
    return opened;
}

// Reports at what the walk has ended and what it has skipped.
void FileReader::close(Reading& reading, OpenChunk& chunk) const {
    const auto [file, piece_index] = chunks_[reading.chunk];
    const std::optional<Damage> damage = chunk.walk->damage();
    reading.fault = damage ? file->fault_of(piece_index, chunk.piece, *damage) : std::move(chunk.piece.fault);
    const SkippedTally& skipped = chunk.walk->skipped();
    good_[reading.chunk].store(!reading.fault && skipped.is_empty(), std::memory_order_relaxed);
    reading.skipped = file->skipped(piece_index, chunk.piece, skipped);
}

void FileReader::read(std::span<Reading> readings, bool checks, const Appended& appended) const {
    for (std::size_t first = 0; first < readings.size(); first += chunks_per_task()) {
        read_together(readings, first, checks, appended);
    }
}

// Reads up to chunks_per_task() of the readings, from `first` on, in turn: a block of each, until all are at their
// ends.
void FileReader::read_together(std::span<Reading> readings, std::size_t first, bool checks,
                               const Appended& appended) const {
    std::vector<std::unique_ptr<OpenChunk>> open_chunks;
    const std::size_t last = std::min(readings.size(), first + chunks_per_task());
    for (std::size_t i = first; i < last; ++i) {
        std::unique_ptr<OpenChunk> opened = open(readings[i], i);
        if (opened != nullptr) open_chunks.push_back(std::move(opened));
    }
    while (!open_chunks.empty()) {
        read_blocks(readings, open_chunks, checks, appended);
        std::erase(open_chunks, nullptr);
    }
}

// Appends a block of each open chunk to its reading. Those that are at their ends are closed and become null.
void FileReader::read_blocks(std::span<Reading> readings, std::span<std::unique_ptr<OpenChunk>> open_chunks,
                             bool checks, const Appended& appended) const {
    std::vector<Lane> lanes;
    for (const auto& chunk : open_chunks) {
        lanes.push_back({chunk->walk.get(), readings[chunk->index].records->room<Record>(kBlock), false});
    }
    files_.front()->codec().read_lanes(lanes, kBlock, checks);
    for (std::size_t i = 0; i < lanes.size(); ++i) {
        const std::size_t index = open_chunks[i]->index;
        Reading& reading = readings[index];
        const std::span<Record> previous = reading.records->as<Record>();
        const Record* const previous_end = previous.data() + previous.size();
        reading.records->grow(static_cast<std::size_t>(lanes[i].out - previous_end));
        appended(index);
        if (!lanes[i].at_end) continue;
        close(reading, *open_chunks[i]);
        open_chunks[i].reset();
    }
}

}  // namespace sparsepool::chess
