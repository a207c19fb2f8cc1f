#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "chess/native/files/walk.h"

namespace sparsepool::chess {

// A walk through lines, each of which is a position. What a line means is the derived class's business. Lines of blanks
// count for nothing.
class LineWalk : public Walk {
  public:
    LineWalk(std::string_view bytes, const ReadOptions& options) : bytes_(bytes), options_(options) {}

    [[nodiscard]] const Entry* next() final;
    [[nodiscard]] std::size_t read(Record* out, std::size_t capacity, bool checks) final;
    [[nodiscard]] std::uint64_t units() const final { return lines_; }
    [[nodiscard]] std::uint64_t offset() const final { return at_; }
    [[nodiscard]] const SkippedTally& skipped() const final { return skipped_; }
    [[nodiscard]] std::optional<Damage> damage() const final { return damage_; }
    [[nodiscard]] Damage refusal(std::string reason) const final { return {begin_, lines_, std::move(reason), false}; }

  protected:
    // What is wrong with a line, without its end; nothing if the entry is what it says.
    [[nodiscard]] virtual std::string read_line(std::string_view line, unsigned required_parts, Entry& entry) = 0;

    // Of a line that is no position, and no fault.
    [[nodiscard]] virtual bool is_skipped(std::string_view) const { return false; }

    void set_damage(std::string reason) { damage_ = {at_, lines_, std::move(reason), false}; }

  private:
    // Goes on behind the line that ends there.
    void end_line(std::size_t end);

    std::string_view bytes_;
    ReadOptions options_;
    std::size_t begin_ = 0;  // of the line
    std::size_t at_ = 0;
    std::uint64_t lines_ = 0;
    Entry entry_;
    SkippedTally skipped_;
    std::optional<Damage> damage_;
};

}  // namespace sparsepool::chess
