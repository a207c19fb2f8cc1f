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

    [[nodiscard]] virtual const char* word() const = 0;  // of one, for messages

    // Bytes of the whole units that these begin with; none of them ends in the first `searched` bytes.
    [[nodiscard]] virtual std::size_t whole(std::string_view bytes, std::size_t searched) const = 0;

    [[nodiscard]] virtual std::uint64_t count(std::string_view whole) const = 0;
};

}  // namespace sparsepool
