#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "chess/native/files/walk.h"

namespace sparsepool::chess {

// A walk through lines, each of which is a position. The derived class parses a line. Lines of blanks are ignored.
class LineWalk : public Walk {
  public:
    LineWalk(std::string_view bytes, const ReadOptions& options) : bytes_(bytes), options_(options) {}

    [[nodiscard]] const Entry* next() final;
    [[nodiscard]] std::size_t read(Record* out, std::size_t capacity, bool checks) final;
    [[nodiscard]] std::uint64_t units() const final { return lines_; }
    [[nodiscard]] std::uint64_t offset() const final { return offset_; }
    [[nodiscard]] const SkippedTally& skipped() const final { return skipped_; }
    [[nodiscard]] std::optional<Damage> damage() const final { return damage_; }
    [[nodiscard]] Damage refusal(std::string reason) const final {
        return {line_begin_, lines_, std::move(reason), false};
    }

  protected:
    // Parses a line, without its end, into the entry. Returns what is wrong, or an empty text.
    [[nodiscard]] virtual std::string read_line(std::string_view line, unsigned required_parts, Entry& entry) = 0;

    // Whether a line is neither a position nor a fault.
    [[nodiscard]] virtual bool is_ignored(std::string_view) const { return false; }

    void set_damage(std::string reason) { damage_ = {offset_, lines_, std::move(reason), false}; }

  private:
    [[nodiscard]] bool read_or_skip(std::string_view line, std::size_t end);

    // Continues behind the line that ends at `end`.
    void end_line(std::size_t end);

    std::string_view bytes_;
    ReadOptions options_;
    std::size_t line_begin_ = 0;
    std::size_t offset_ = 0;  // of the next line
    std::uint64_t lines_ = 0;
    Entry entry_;
    SkippedTally skipped_;
    std::optional<Damage> damage_;
};

}  // namespace sparsepool::chess
