#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "chess/formats/binpack/native/entries/lane.h"
#include "chess/native/files/walk.h"

namespace sparsepool::binpack {

// Through the chains of a chunk's payload, or of several, one behind the other. They must stay.
class ChainWalk final : public chess::Walk {
  public:
    // `ends`: of the payloads among the bytes; empty: there is one. No chain goes from one into the next.
    ChainWalk(std::string_view bytes, std::span<const std::uint64_t> ends, const chess::ReadOptions& options);

    [[nodiscard]] const chess::Entry* next() override;
    [[nodiscard]] std::size_t read(chess::Record* out, std::size_t capacity, bool checks) override;
    [[nodiscard]] std::uint64_t count() override;
    [[nodiscard]] std::uint64_t units() const override { return lane_.state.chains; }
    [[nodiscard]] std::uint64_t offset() const override { return lane_.state.before + (lane_.state.bit + 7) / 8; }
    [[nodiscard]] const chess::SkippedTally& skipped() const override { return skipped_; }
    [[nodiscard]] std::optional<chess::Damage> damage() const override;
    [[nodiscard]] chess::Damage refusal(std::string reason) const override;

    [[nodiscard]] Lane& lane() { return lane_; }

    // Of a payload that is done: goes on with the next one; false if there is none, or at a fault.
    [[nodiscard]] bool begin_next();

  private:
    std::span<const std::uint8_t> bytes_;
    std::span<const std::uint64_t> ends_;  // of payloads that are not done
    Lane lane_;
    chess::SkippedTally skipped_;
};

}  // namespace sparsepool::binpack
