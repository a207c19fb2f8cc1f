#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "chess/formats/binpack/native/entries/lane.h"
#include "chess/native/files/walk.h"

namespace sparsepool::binpack {

// Through the chains of a chunk's payload, which must stay.
class ChainWalk final : public chess::Walk {
  public:
    ChainWalk(std::string_view payload, const chess::Demands& demands);

    [[nodiscard]] const chess::Entry* next() override;
    [[nodiscard]] std::size_t read(chess::Record* out, std::size_t capacity, bool checks) override;
    [[nodiscard]] std::uint64_t count() override;
    [[nodiscard]] std::uint64_t units() const override { return lane_.state.chains; }
    [[nodiscard]] std::uint64_t at() const override { return (lane_.state.bit + 7) / 8; }
    [[nodiscard]] const chess::IllegalTally& illegal() const override { return illegal_; }
    [[nodiscard]] std::optional<chess::Damage> damage() const override;
    [[nodiscard]] chess::Damage refusal(std::string reason) const override;

    [[nodiscard]] Lane& lane() { return lane_; }

  private:
    Lane lane_;
    chess::IllegalTally illegal_;
};

}  // namespace sparsepool::binpack
