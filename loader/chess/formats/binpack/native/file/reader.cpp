#include "chess/formats/binpack/native/file/reader.h"

#include <algorithm>
#include <utility>

#include "chess/formats/binpack/native/file/chunk.h"

namespace sparsepool::binpack {
namespace {

using chess::Record;
using stream::SourceFault;

constexpr std::size_t kBlock = 512;  // entries: those of four chunks stay in a core's cache until they are filtered

struct OpenChunk {
    std::size_t index;  // among the chunks asked for
    File::Bytes bytes;
    ChunkReader reader;
};

void read_blocks(std::span<OpenChunk> open, std::span<chess::PositionReader::Reading> readings, bool checks) {
    ChunkReader* readers[kMaxLanes];
    for (std::size_t i = 0; i < open.size(); ++i) {
        readers[i] = &open[i].reader;
        readers[i]->set_output(readings[open[i].index].records->room<Record>(kBlock));
    }
    ChunkReader::read_chunks({readers, open.size()}, kBlock, checks);
    for (const OpenChunk& chunk : open) {
        stream::RecordBuffer& records = *readings[chunk.index].records;
        const std::span<Record> before = records.as<Record>();
        records.grow(static_cast<std::size_t>(chunk.reader.output() - before.data()) - before.size());
    }
}

std::optional<SourceFault> fault_of(const File& file, const ChunkReader& reader) {
    const std::optional<Damage> damage = reader.damage();
    if (!damage) return std::nullopt;
    const std::string entry = " (entry " + std::to_string(damage->entry_in_chain) + " of its chain)";
    return SourceFault{file.path(), damage->offset, damage->reason + entry};
}

}  // namespace

Reader::Reader(std::vector<std::shared_ptr<const File>> files) : files_(std::move(files)) {
    for (const auto& file : files_) {
        const std::size_t count = file->chunks().size() + (file->header_damage() ? 1 : 0);
        for (std::size_t number = 0; number < count; ++number) chunks_.push_back({file.get(), number});
    }
}

std::string Reader::name() const {
    if (files_.empty()) return "no file";
    const std::string more = files_.size() == 1 ? "" : " and " + std::to_string(files_.size() - 1) + " more";
    return files_.front()->path() + more;
}

File::Bytes Reader::bytes_of(Reading& reading) const {
    using enum SourceFault::Kind;
    const auto [file, number] = chunks_[reading.chunk];
    if (number == file->chunks().size()) {
        reading.fault = SourceFault{file->path(), file->header_damage()->offset, file->header_damage()->reason};
        return {};
    }
    File::Bytes bytes = file->read(number);
    const std::uint64_t offset = file->chunks()[number].offset;
    if (const auto& fault = bytes.fault()) {
        reading.fault = SourceFault{file->path(), offset, fault->reason, fault->changed ? kChanged : kUnreadable};
    } else if (!sums_.agrees(reading.chunk, bytes.whole())) {
        reading.fault =
            SourceFault{file->path(), offset, "this chunk has other bytes than when it was read first", kChanged};
    }
    return bytes;
}

void Reader::read(std::span<Reading> readings, bool checks, const Appended& appended) const {
    std::vector<OpenChunk> open;
    std::vector<chess::IllegalTally> left_out(readings.size());
    for (std::size_t i = 0; i < readings.size(); ++i) {
        File::Bytes bytes = bytes_of(readings[i]);
        if (readings[i].fault) continue;
        const auto [file, number] = chunks_[readings[i].chunk];
        const ChunkReader reader(bytes.payload(), file->payload_offset(number), file->demands(), &left_out[i]);
        open.push_back({i, std::move(bytes), reader});
    }
    while (!open.empty()) {
        const auto together = std::span(open).first(std::min<std::size_t>(open.size(), kMaxLanes));
        read_blocks(together, readings, checks);
        for (const OpenChunk& chunk : together) {
            appended(chunk.index);
            if (!chunk.reader.at_end()) continue;
            const auto [file, number] = chunks_[readings[chunk.index].chunk];
            readings[chunk.index].fault = fault_of(*file, chunk.reader);
            if (const auto* first = left_out[chunk.index].first()) {
                readings[chunk.index].left_out = SourceFault{file->path(), file->payload_offset(number) + first->offset,
                                                             left_out[chunk.index].describe()};
            }
        }
        std::erase_if(open, [](const OpenChunk& chunk) { return chunk.reader.at_end(); });
    }
}

}  // namespace sparsepool::binpack
