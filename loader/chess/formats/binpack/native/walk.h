#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "chess/formats/binpack/native/entries/lane.h"
#include "chess/native/files/walk.h"

namespace sparsepool::binpack {

// A walk through the chains of a chunk's payload, or of several payloads in a row. The bytes must outlive the walk.
class ChainWalk final : public chess::Walk {
  public:
    // `ends`: where each payload ends; empty for a single payload. Chains do not cross payloads.
    ChainWalk(std::string_view bytes, std::span<const std::uint64_t> ends, const chess::ReadOptions& options);

    [[nodiscard]] const chess::Entry* next() override;
    [[nodiscard]] std::size_t read(chess::Record* out, std::size_t capacity, bool checks) override;
    [[nodiscard]] std::uint64_t count() override;
    [[nodiscard]] std::uint64_t units() const override { return lane_.state.chains; }
    [[nodiscard]] std::uint64_t offset() const override {
        return lane_.state.payload_begin + (lane_.state.bit + 7) / 8;
    }
    [[nodiscard]] const chess::SkippedTally& skipped() const override { return skipped_; }
    [[nodiscard]] std::optional<chess::Damage> damage() const override;
    [[nodiscard]] chess::Damage refusal(std::string reason) const override;

    [[nodiscard]] Lane& lane() { return lane_; }

    // Continues with the next payload. Returns false if there is none, or at a fault.
    [[nodiscard]] bool begin_next_payload();

  private:
    std::span<const std::uint8_t> bytes_;
    std::span<const std::uint64_t> ends_;  // of the current payload and those behind it
    Lane lane_;
    chess::SkippedTally skipped_;
};

}  // namespace sparsepool::binpack
