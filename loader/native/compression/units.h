#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sparsepool {

// What a file is cut between: lines, records, games.
class Units {
  public:
    virtual ~Units() = default;
    Units() = default;
    Units(const Units&) = delete;
    Units& operator=(const Units&) = delete;

    [[nodiscard]] virtual const char* word() const = 0;  // the noun for one unit, for messages

    // Size of the complete units at the beginning of `bytes`. No unit ends in the first `searched` bytes.
    [[nodiscard]] virtual std::size_t whole(std::string_view bytes, std::size_t searched) const = 0;

    // How many units the bytes have, all complete.
    [[nodiscard]] virtual std::uint64_t count(std::string_view whole) const = 0;
};

}  // namespace sparsepool
