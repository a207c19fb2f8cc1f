#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "chess/native/board/position.h"

namespace sparsepool::fen_csv {

enum class Column : std::size_t { kFen, kScore, kMate, kResult };
inline constexpr std::size_t kNumColumns = 4;

// The columns of a file that are read, by its header.
class Columns {
  public:
    explicit Columns(std::string_view header);

    // Why nothing can be read under the header; empty if it can.
    [[nodiscard]] const std::string& fault() const { return fault_; }

    // What is wrong with a line of cells; nothing if the entry is what it says.
    [[nodiscard]] std::string read(std::string_view line, unsigned required_parts, chess::Entry& entry) const;

  private:
    [[nodiscard]] bool has(Column column) const { return places_.at(static_cast<std::size_t>(column)).has_value(); }

    char delimiter_;
    std::size_t count_ = 0;
    std::array<std::optional<std::size_t>, kNumColumns> places_{};
    std::string fault_;
};

// Whether lines that begin so are meant to be text with columns, of which one has FENs.
[[nodiscard]] bool looks_like_columns(std::string_view head);

}  // namespace sparsepool::fen_csv
