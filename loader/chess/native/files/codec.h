#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chess/native/files/walk.h"
#include "chess/native/files/writer.h"
#include "common/files/identity.h"
#include "common/simd.h"
#include "compression/units.h"

namespace sparsepool::chess {

class EntryFile;
class ScannedUnits;
struct OpenedFile;

// One of several walks that are read in turn by one thread.
struct Lane {
    Walk* walk = nullptr;
    Record* out = nullptr;  // moves on with each record written
    bool at_end = false;    // or at damage
};

// A format of positions, both ways. Immutable: any number of threads may use it.
class Codec {
  public:
    virtual ~Codec() = default;
    Codec() = default;
    Codec(const Codec&) = delete;
    Codec& operator=(const Codec&) = delete;

    [[nodiscard]] virtual const Units& units() const = 0;
    [[nodiscard]] virtual std::size_t unit_bytes() const { return 0; }  // of a record; 0: units differ in size
    [[nodiscard]] virtual const ScannedUnits* scanned_units() const { return nullptr; }  // the units, if their ends are
    [[nodiscard]] virtual bool has_games() const { return false; }                       // the units are games
    [[nodiscard]] virtual bool has_lines() const { return false; }
    // Units end with a line, and faults tell their number.
    [[nodiscard]] virtual bool is_text() const { return has_lines(); }
    [[nodiscard]] virtual bool keeps_games() const { return has_games(); }  // or what is left of them
    [[nodiscard]] virtual unsigned move_number(const Entry& entry) const { return entry.ply / 2U + 1; }  // of its FEN

    // Through units, at the instruction set in use. `bytes` must stay.
    [[nodiscard]] virtual std::unique_ptr<Walk> walk(std::string_view bytes, const ReadOptions& options) const = 0;
    [[nodiscard]] virtual std::unique_ptr<EntryWriter> make_writer() const { return nullptr; }  // null: it is only read

    // Of a format whose files begin with a line that says what the others mean: that line, in the beginning of a file;
    // and a walk through units that have been read under it.
    [[nodiscard]] virtual bool has_header() const { return false; }
    [[nodiscard]] virtual std::string_view header_in(std::string_view) const { return {}; }
    [[nodiscard]] virtual std::unique_ptr<Walk> walk_under(std::string_view, std::string_view bytes,
                                                           const ReadOptions& options) const {
        return walk(bytes, options);
    }

    // As many pieces as are best read by one thread, in turn: up to `count` records of each, fewer if one of them comes
    // to its end. Illegal positions are looked for where a game or chain begins. Without `checks` the flag kInCheck is
    // never set.
    [[nodiscard]] virtual std::size_t chunks_per_task() const { return 1; }
    virtual void read_lanes(std::span<Lane> lanes, std::size_t count, bool checks) const;

    // Whether these bytes, which may end anywhere, begin a file of the format.
    [[nodiscard]] virtual bool begins_a_file(std::string_view head) const;

    // The first `size` bytes of the expected file, or of the one that is there; any other is a fault, here and whenever
    // a piece is read. `borders`: as PlainUnitFile::borders gave them; else a file of games is read for it.
    [[nodiscard]] virtual OpenedFile open(const std::string& path, std::optional<ExpectedFile> expected,
                                          const ReadOptions& options,
                                          std::optional<std::vector<std::uint64_t>> borders) const;

    // A piece of what comes out of a pipe, as a file; `begin`, `first_unit`: bytes and units before it; `header`: as
    // header_in gives it.
    [[nodiscard]] virtual std::shared_ptr<const EntryFile> open_in_memory(std::string name, const ReadOptions& options,
                                                                          std::string bytes, std::uint64_t begin,
                                                                          std::uint64_t first_unit,
                                                                          std::string header) const;

    // Bytes of the piece that `bytes` begin with, cut as a file's pieces are; 0 if it takes more bytes to know.
    // `begin`: bytes before them; `last`: none come behind them. Of most pieces `enough` bytes say it.
    [[nodiscard]] virtual std::size_t first_piece(std::string_view bytes, std::uint64_t begin, bool last) const;
    [[nodiscard]] virtual std::size_t enough() const { return (1 << 20) + (1 << 16); }

    // The units of a whole file, one behind the other.
    [[nodiscard]] virtual std::string units_of(std::string_view file) const { return std::string(file); }
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

// Units of any size, of which a file has no list.
class ScannedUnits : public Units {
  public:
    [[nodiscard]] std::size_t whole(std::string_view bytes, std::size_t searched) const override;
    [[nodiscard]] std::uint64_t count(std::string_view whole) const override;

    // Where the unit that begins at `begin` ends; npos if it does not.
    [[nodiscard]] virtual std::size_t find_end(std::string_view bytes, std::size_t begin) const = 0;
};

// Games: a header, then four bytes a move, then four zero bytes.
class Games final : public ScannedUnits {
  public:
    explicit Games(std::size_t header) : header_(header) {}

    [[nodiscard]] const char* word() const override { return "game"; }
    [[nodiscard]] std::size_t find_end(std::string_view bytes, std::size_t begin) const override;

  private:
    std::size_t header_;
};

// Of a format that says what it does by `Kernels`, with a member `walk`, and a writer.
template <class Kernels, class Writer, std::size_t kBytes>
class RecordCodec final : public Codec {
  public:
    [[nodiscard]] const Units& units() const override { return units_; }
    [[nodiscard]] std::size_t unit_bytes() const override { return kBytes; }
    [[nodiscard]] std::unique_ptr<Walk> walk(std::string_view bytes, const ReadOptions& options) const override {
        return std::make_unique<UnitWalk>(simd::kernels<Kernels>().walk, bytes, options);
    }
    [[nodiscard]] std::unique_ptr<EntryWriter> make_writer() const override { return std::make_unique<Writer>(); }

  private:
    Records units_{kBytes};
};

template <class Kernels, class Writer, std::size_t kHeader>
class GameCodec final : public Codec {
  public:
    [[nodiscard]] const Units& units() const override { return units_; }
    [[nodiscard]] const ScannedUnits* scanned_units() const override { return &units_; }
    [[nodiscard]] bool has_games() const override { return true; }
    [[nodiscard]] std::unique_ptr<Walk> walk(std::string_view bytes, const ReadOptions& options) const override {
        return std::make_unique<UnitWalk>(simd::kernels<Kernels>().walk, bytes, options);
    }
    [[nodiscard]] std::unique_ptr<EntryWriter> make_writer() const override { return std::make_unique<Writer>(); }

  private:
    Games units_{kHeader};
};

}  // namespace sparsepool::chess
