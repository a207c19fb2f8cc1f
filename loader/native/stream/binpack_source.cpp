#include "stream/binpack_source.h"

#include <utility>

#include "formats/binpack/chunk.h"

namespace sparsepool::stream {

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

std::optional<SourceFault> BinpackSource::decode(std::size_t chunk, RecordBuffer& out) const {
    constexpr std::size_t kBlock = 16384;
    const auto [file, number] = chunks_[chunk];
    if (number == file->chunks().size()) {
        return SourceFault{file->path(), file->header_damage()->offset, file->header_damage()->reason};
    }
    ChunkReader reader(file->payload(number), file->payload_offset(number));
    std::size_t count = kBlock;
    while (count == kBlock) {
        count = reader.read(out.room(kBlock), kBlock);
        out.grow(count);
    }
    const std::optional<Damage> damage = reader.damage();
    if (!damage) return std::nullopt;
    const std::string entry = " (entry " + std::to_string(damage->entry_in_chain) + " of its chain)";
    return SourceFault{file->path(), damage->offset, damage->reason + entry};
}

}  // namespace sparsepool::stream
