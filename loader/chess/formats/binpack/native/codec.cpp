#include <algorithm>
#include <cstring>
#include <utility>

#include "chess/formats/binpack/native/file.h"
#include "chess/formats/binpack/native/format.h"
#include "chess/formats/binpack/native/kernels.h"
#include "chess/formats/binpack/native/walk.h"
#include "chess/formats/binpack/native/writer.h"
#include "chess/native/files/codec.h"

namespace sparsepool::binpack {
namespace {

// The chains of a payload, which are all complete. They are not counted: messages name entries of chains by offsets.
class Chains final : public Units {
  public:
    [[nodiscard]] const char* word() const override { return "chain"; }
    [[nodiscard]] std::size_t whole(std::string_view bytes, std::size_t) const override { return bytes.size(); }
    [[nodiscard]] std::uint64_t count(std::string_view) const override { return 0; }
};

class BinpackCodec final : public chess::Codec {
  public:
    [[nodiscard]] const Units& units() const override { return units_; }
    [[nodiscard]] bool keeps_games() const override { return true; }

    // As the tools print it, whatever the side to move: the format has no move number.
    [[nodiscard]] unsigned move_number(const chess::Entry& entry) const override { return (entry.ply + 1U) / 2; }

    [[nodiscard]] std::unique_ptr<chess::Walk> walk(std::string_view payload,
                                                    const chess::ReadOptions& options) const override {
        return std::make_unique<ChainWalk>(payload, std::span<const std::uint64_t>(), options);
    }
    [[nodiscard]] std::unique_ptr<chess::EntryWriter> make_writer() const override {
        return std::make_unique<Writer>();
    }

    [[nodiscard]] std::size_t chunks_per_task() const override { return kMaxLanes; }
    // The lanes of a format are walks; those of this one keep their state in their ChainWalk.
    void read_lanes(std::span<chess::Lane> lanes, std::size_t count, bool checks) const override {
        Lane* states[kMaxLanes];
        for (std::size_t i = 0; i < lanes.size(); ++i) {
            states[i] = &static_cast<ChainWalk*>(lanes[i].walk)->lane();
            states[i]->out = lanes[i].out;
        }
        simd::kernels<Kernels>().read_lanes(states, lanes.size(), count, checks);
        for (std::size_t i = 0; i < lanes.size(); ++i) {
            lanes[i].out = states[i]->out;
            lanes[i].at_end = states[i]->at_end && !static_cast<ChainWalk*>(lanes[i].walk)->begin_next_payload();
        }
    }

    [[nodiscard]] bool begins_a_file(std::string_view head) const override {
        return head.starts_with(std::string_view(kMagic, sizeof kMagic));
    }
    [[nodiscard]] chess::OpenedFile open(const std::string& path, std::optional<ExpectedFile> expected,
                                         const chess::ReadOptions& options,
                                         std::optional<std::vector<std::uint64_t>>) const override {
        return open_chunks(path, expected, *this, options);
    }
    [[nodiscard]] std::shared_ptr<const chess::EntryFile> open_in_memory(std::string name,
                                                                         const chess::ReadOptions& options,
                                                                         std::string bytes, std::uint64_t begin,
                                                                         std::uint64_t, std::string) const override {
        return ChunkFile::open_in_memory(std::move(name), std::move(bytes), begin, *this, options);
    }
    [[nodiscard]] std::size_t enough() const override { return kHeaderBytes; }
    [[nodiscard]] std::size_t first_piece(std::string_view bytes, std::uint64_t, bool) const override {
        return std::max<std::size_t>(chunk_bytes(bytes), kHeaderBytes);
    }
    // Returns the payloads of all chunks, without their headers.
    [[nodiscard]] std::string units_of(std::string_view file) const override {
        std::string chains;
        chains.reserve(file.size());
        std::size_t size = chunk_bytes(file);
        while (size != 0) {
            chains += file.substr(kHeaderBytes, size - kHeaderBytes);
            file.remove_prefix(std::min(size, file.size()));
            size = chunk_bytes(file);
        }
        return chains;
    }

  private:
    Chains units_;
};

}  // namespace

const chess::Codec& codec() {
    static const BinpackCodec instance;
    return instance;
}

}  // namespace sparsepool::binpack
