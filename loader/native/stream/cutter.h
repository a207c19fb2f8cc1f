#pragma once

#include <cstdint>
#include <optional>
#include <string>

// Where batches begin and end: the stream's arithmetic, without records, threads or memory.
namespace sparsepool::stream {

// Where a batch begins: right behind the one before it. What is left of an epoch there may be dropped.
struct Cursor {
    std::uint64_t batch = 0;
    std::uint64_t epoch = 0;
    std::uint64_t window = 0;  // within the epoch
    std::uint64_t entry = 0;   // within the window, in shuffled order
};

// One batch: all entries carried over from earlier windows, then `count` entries of the open window from `from`.
struct Cut {
    Cursor begin;
    Cursor next;
    std::uint64_t from = 0;
    std::uint64_t count = 0;
};

// What becomes of the rest of a window: entries [from, from + count) are carried over, behind those carried
// already; or all of that is dropped.
struct Rest {
    std::uint64_t from = 0;
    std::uint64_t count = 0;
    bool dropped = false;
    std::string starved;  // not empty: the epoch that ended here gave nothing, so none ever will
};

// Windows are opened one after another, cut until nothing can be cut, and closed.
class Cutter {
  public:
    Cutter(std::uint64_t batch_size, std::uint64_t num_windows, bool drop_tail)
        : batch_size_(batch_size), num_windows_(num_windows), drop_tail_(drop_tail) {}

    // The next window opened must be that of the cursor.
    void seek(const Cursor& cursor);

    // Opens the next window, of `size` entries. False: the cursor sought lies beyond them.
    [[nodiscard]] bool open(std::uint64_t size);
    [[nodiscard]] bool can_cut() const { return carried_ + (size_ - position_) >= batch_size_; }
    [[nodiscard]] Cut cut();  // only if can_cut
    [[nodiscard]] Rest close();

    // The window open, or else the next to be opened.
    [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
    [[nodiscard]] std::uint64_t window() const { return window_; }

  private:
    std::uint64_t batch_size_;
    std::uint64_t num_windows_;
    bool drop_tail_;

    Cursor next_;  // of the next batch
    std::uint64_t epoch_ = 0;
    std::uint64_t window_ = 0;
    std::uint64_t size_ = 0;
    std::uint64_t position_ = 0;
    std::uint64_t carried_ = 0;
    bool whole_epoch_ = false;  // seen from its beginning
    std::uint64_t epoch_entries_ = 0;
    std::uint64_t epoch_batches_ = 0;
};

}  // namespace sparsepool::stream
