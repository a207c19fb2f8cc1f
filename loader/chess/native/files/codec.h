#pragma once

#include <cstddef>
#include <memory>

#include "chess/native/files/walk.h"
#include "chess/native/files/writer.h"
#include "common/simd.h"
#include "compression/units.h"

namespace sparsepool::chess {

class Games;

// A format of positions, both ways. Immutable: any number of threads may use it.
class Codec {
  public:
    virtual ~Codec() = default;
    Codec() = default;
    Codec(const Codec&) = delete;
    Codec& operator=(const Codec&) = delete;

    [[nodiscard]] virtual const Units& units() const = 0;
    [[nodiscard]] virtual std::size_t unit_bytes() const { return 0; }    // of a record; 0: units differ in size
    [[nodiscard]] virtual const Games* games() const { return nullptr; }  // the units, if they are games
    [[nodiscard]] virtual WalkKernels kernels() const = 0;                // at the instruction set in use
    [[nodiscard]] virtual std::unique_ptr<EntryWriter> make_writer() const = 0;
};

// Records of one size.
class Records final : public Units {
  public:
    explicit Records(std::size_t bytes) : bytes_(bytes) {}

    [[nodiscard]] const char* word() const override { return "record"; }
    [[nodiscard]] std::size_t whole(std::string_view bytes, std::size_t) const override {
        return bytes.size() - bytes.size() % bytes_;
    }
    [[nodiscard]] std::uint64_t count(std::string_view whole) const override { return whole.size() / bytes_; }

  private:
    std::size_t bytes_;
};

// Games: a header, then four bytes a move, then four zero bytes.
class Games final : public Units {
  public:
    explicit Games(std::size_t header) : header_(header) {}

    [[nodiscard]] const char* word() const override { return "game"; }
    [[nodiscard]] std::size_t whole(std::string_view bytes, std::size_t searched) const override;
    [[nodiscard]] std::uint64_t count(std::string_view whole) const override;

    // Where the game that begins at `begin` ends; npos if it does not.
    [[nodiscard]] std::size_t end_of(std::string_view bytes, std::size_t begin) const;

  private:
    std::size_t header_;
};

// Of a format that says what it does by `Kernels`, with a member `walk`, and a writer.
template <class Kernels, class Writer, std::size_t kBytes>
class RecordCodec final : public Codec {
  public:
    [[nodiscard]] const Units& units() const override { return units_; }
    [[nodiscard]] std::size_t unit_bytes() const override { return kBytes; }
    [[nodiscard]] WalkKernels kernels() const override { return simd::kernels<Kernels>().walk; }
    [[nodiscard]] std::unique_ptr<EntryWriter> make_writer() const override { return std::make_unique<Writer>(); }

  private:
    Records units_{kBytes};
};

template <class Kernels, class Writer, std::size_t kHeader>
class GameCodec final : public Codec {
  public:
    [[nodiscard]] const Units& units() const override { return units_; }
    [[nodiscard]] const Games* games() const override { return &units_; }
    [[nodiscard]] WalkKernels kernels() const override { return simd::kernels<Kernels>().walk; }
    [[nodiscard]] std::unique_ptr<EntryWriter> make_writer() const override { return std::make_unique<Writer>(); }

  private:
    Games units_{kHeader};
};

}  // namespace sparsepool::chess
