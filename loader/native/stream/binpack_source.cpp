#include "stream/binpack_source.h"

#include <algorithm>
#include <utility>

#include "formats/binpack/chunk.h"

namespace sparsepool::stream {
namespace {

constexpr std::size_t kBlock = 512;  // entries: those of four chunks stay in a core's cache until they are filtered

struct Reading {
    std::size_t index;  // among the chunks asked for
    ChunkReader reader;
};

void read_blocks(std::span<Reading> readings, std::span<ChunkRead> chunks, bool checks) {
    ChunkReader* readers[binpack::kMaxLanes];
    for (std::size_t i = 0; i < readings.size(); ++i) {
        readers[i] = &readings[i].reader;
        readers[i]->set_output(chunks[readings[i].index].records.room(kBlock));
    }
    ChunkReader::read_chunks({readers, readings.size()}, kBlock, checks);
    for (const Reading& reading : readings) {
        RecordBuffer& records = chunks[reading.index].records;
        records.grow(static_cast<std::size_t>(reading.reader.output() - records.data()) - records.size());
    }
}

std::optional<SourceFault> fault_of(const BinpackFile& file, const ChunkReader& reader) {
    const std::optional<Damage> damage = reader.damage();
    if (!damage) return std::nullopt;
    const std::string entry = " (entry " + std::to_string(damage->entry_in_chain) + " of its chain)";
    return SourceFault{file.path(), damage->offset, damage->reason + entry};
}

}  // namespace

BinpackSource::BinpackSource(std::vector<std::shared_ptr<const BinpackFile>> files) : files_(std::move(files)) {
    for (const auto& file : files_) {
        const std::size_t count = file->chunks().size() + (file->header_damage() ? 1 : 0);
        for (std::size_t number = 0; number < count; ++number) chunks_.push_back({file.get(), number});
    }
}

std::string BinpackSource::name() const {
    if (files_.empty()) return "no file";
    const std::string more = files_.size() == 1 ? "" : " and " + std::to_string(files_.size() - 1) + " more";
    return files_.front()->path() + more;
}

std::size_t BinpackSource::together() const { return binpack::kMaxLanes; }

void BinpackSource::decode(std::span<ChunkRead> chunks, bool checks, const Appended& appended) const {
    std::vector<Reading> readings;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        const auto [file, number] = chunks_[chunks[i].chunk];
        if (number == file->chunks().size()) {
            chunks[i].fault = SourceFault{file->path(), file->header_damage()->offset, file->header_damage()->reason};
        } else {
            readings.push_back({i, ChunkReader(file->payload(number), file->payload_offset(number))});
        }
    }
    while (!readings.empty()) {
        const auto together = std::span(readings).first(std::min<std::size_t>(readings.size(), binpack::kMaxLanes));
        read_blocks(together, chunks, checks);
        for (const Reading& reading : together) {
            appended(reading.index);
            if (!reading.reader.at_end()) continue;
            chunks[reading.index].fault = fault_of(*chunks_[chunks[reading.index].chunk].file, reading.reader);
        }
        std::erase_if(readings, [](const Reading& reading) { return reading.reader.at_end(); });
    }
}

}  // namespace sparsepool::stream
