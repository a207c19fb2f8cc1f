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

// The columns of a file that are read, found by its header.
class Columns {
  public:
    explicit Columns(std::string_view header);

    // Returns why nothing can be read under the header; an empty text if it can.
    [[nodiscard]] const std::string& fault() const { return fault_; }

    // Parses a line of cells into the entry. Returns what is wrong, or an empty text.
    [[nodiscard]] std::string read(std::string_view line, unsigned required_parts, chess::Entry& entry) const;

  private:
    [[nodiscard]] bool has(Column column) const { return indices_.at(static_cast<std::size_t>(column)).has_value(); }

    char delimiter_;
    std::size_t count_ = 0;                                          // of all columns
    std::array<std::optional<std::size_t>, kNumColumns> indices_{};  // by Column
    std::string fault_;
};

// Whether the beginning of a file looks like text with columns, one of which has FENs.
[[nodiscard]] bool looks_like_columns(std::string_view head);

}  // namespace sparsepool::fen_csv
