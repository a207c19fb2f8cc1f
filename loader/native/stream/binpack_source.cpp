#include "stream/binpack_source.h"

#include <algorithm>
#include <utility>

#include "formats/binpack/chunk.h"

namespace sparsepool::stream {
namespace {

constexpr std::size_t kBlock = 512;  // entries: those of four chunks stay in a core's cache until they are filtered

struct Reading {
    std::size_t index;  // among the chunks asked for
    BinpackFile::Bytes bytes;
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

BinpackFile::Bytes BinpackSource::read(ChunkRead& chunk) const {
    using enum SourceFault::Kind;
    const auto [file, number] = chunks_[chunk.chunk];
    if (number == file->chunks().size()) {
        chunk.fault = SourceFault{file->path(), file->header_damage()->offset, file->header_damage()->reason};
        return {};
    }
    BinpackFile::Bytes bytes = file->read(number);
    const std::uint64_t offset = file->chunks()[number].offset;
    if (const auto& fault = bytes.fault()) {
        chunk.fault = SourceFault{file->path(), offset, fault->reason, fault->changed ? kChanged : kUnreadable};
    } else if (!sums_.agrees(chunk.chunk, bytes.whole())) {
        chunk.fault = SourceFault{file->path(), offset, "this chunk has other bytes than when it was read first", kChanged};
    }
    return bytes;
}

void BinpackSource::decode(std::span<ChunkRead> chunks, bool checks, const Appended& appended) const {
    std::vector<Reading> readings;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        BinpackFile::Bytes bytes = read(chunks[i]);
        if (chunks[i].fault) continue;
        const auto [file, number] = chunks_[chunks[i].chunk];
        const ChunkReader reader(bytes.payload(), file->payload_offset(number));
        readings.push_back({i, std::move(bytes), reader});
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
