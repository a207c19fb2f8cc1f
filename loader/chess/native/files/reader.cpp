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

struct FileReader::Open {
    std::size_t index;  // among the chunks asked for
    Piece piece;
    std::unique_ptr<Walk> walk;
};

std::unique_ptr<FileReader::Open> FileReader::open(Reading& reading) const {
    const auto [file, number] = chunks_[reading.chunk];
    auto open = std::make_unique<Open>(Open{0, file->read(number), nullptr});
    const Piece& piece = open->piece;
    const bool had = !piece.fault || piece.fault->kind == SourceFault::Kind::kDamaged;
    if (had && !sums_.record_or_verify(reading.chunk, span_of(piece.bytes), file->sum_before(number))) {
        reading.fault =
            SourceFault{file->path(), file->offset(number), file->describe_change(), SourceFault::Kind::kChanged};
        return nullptr;
    }
    ReadOptions options = file->options();
    if (good_[reading.chunk].load(std::memory_order_relaxed)) options = trusted_options(options);
    open->walk = file->walk(piece, options);
    return open;
}

void FileReader::close(Reading& reading, Open& open) const {
    const auto [file, number] = chunks_[reading.chunk];
    const std::optional<Damage> damage = open.walk->damage();
    reading.fault = damage ? file->fault_of(number, open.piece, *damage) : std::move(open.piece.fault);
    const SkippedTally& skipped = open.walk->skipped();
    good_[reading.chunk].store(!reading.fault && skipped.is_empty(), std::memory_order_relaxed);
    reading.skipped = file->skipped(number, open.piece, skipped);
}

void FileReader::read(std::span<Reading> readings, bool checks, const Appended& appended) const {
    for (std::size_t first = 0; first < readings.size(); first += chunks_per_task()) {
        read_together(readings, first, checks, appended);
    }
}

// Up to chunks_per_task() of the readings, from `first` on.
void FileReader::read_together(std::span<Reading> readings, std::size_t first, bool checks,
                               const Appended& appended) const {
    std::vector<std::unique_ptr<Open>> open;
    for (std::size_t i = first; i < std::min(readings.size(), first + chunks_per_task()); ++i) {
        if (auto opened = this->open(readings[i])) {
            opened->index = i;
            open.push_back(std::move(opened));
        }
    }
    std::vector<Lane> lanes;
    while (!open.empty()) {
        lanes.clear();
        for (const auto& each : open) {
            lanes.push_back({each->walk.get(), readings[each->index].records->room<Record>(kBlock), false});
        }
        files_.front()->codec().read_lanes(lanes, kBlock, checks);
        for (std::size_t i = 0; i < lanes.size(); ++i) {
            Reading& reading = readings[open[i]->index];
            const std::span<Record> before = reading.records->as<Record>();
            reading.records->grow(static_cast<std::size_t>(lanes[i].out - before.data()) - before.size());
            appended(open[i]->index);
            if (!lanes[i].at_end) continue;
            close(reading, *open[i]);
            open[i].reset();
        }
        std::erase(open, nullptr);
    }
}

}  // namespace sparsepool::chess
