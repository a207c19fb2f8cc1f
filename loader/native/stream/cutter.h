#pragma once

#include <cstdint>
#include <optional>
#include <string>

// Where batches begin and end: the stream's arithmetic, without records, threads or memory.
namespace sparsepool::stream {

// Where a batch begins: right after the previous batch. What remains of an epoch there may be dropped.
struct Cursor {
    std::uint64_t batch = 0;
    std::uint64_t epoch = 0;
    std::uint64_t window = 0;  // within the epoch
    std::uint64_t entry = 0;   // within the window, in shuffled order
};

// One batch: all entries carried over from earlier windows, then entries [from, from + count) of the open window.
struct Cut {
    Cursor begin;
    Cursor next;
    std::uint64_t from = 0;
    std::uint64_t count = 0;
};

// The entries of a window that filled no batch: [from, from + count). They are carried over to the next window, after
// those carried already; or all carried entries are dropped.
struct WindowTail {
    std::uint64_t from = 0;
    std::uint64_t count = 0;
    bool is_dropped = false;
    std::string no_batch_reason;  // not empty: the epoch that ended here gave no batch, so no epoch will
};

// Cuts windows of entries into batches. Windows are opened one after another, cut until `can_cut` is false, and closed.
class Cutter {
  public:
    Cutter(std::uint64_t batch_size, std::uint64_t num_windows, bool drop_tail)
        : batch_size_(batch_size), num_windows_(num_windows), drop_tail_(drop_tail) {}

    // The window opened next must be that of the cursor.
    void seek(const Cursor& cursor);

    // Opens the next window, of `size` entries. False if the cursor of `seek` lies beyond its end.
    [[nodiscard]] bool open(std::uint64_t size);
    [[nodiscard]] bool can_cut() const { return num_carried_ + (size_ - position_) >= batch_size_; }
    [[nodiscard]] Cut cut();  // requires can_cut()
    [[nodiscard]] WindowTail close();

    // The window that is open, or else the one to be opened next.
    [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
    [[nodiscard]] std::uint64_t window() const { return window_; }

  private:
    [[nodiscard]] std::string find_no_batch_reason() const;

    std::uint64_t batch_size_;
    std::uint64_t num_windows_;
    bool drop_tail_;

    Cursor next_;  // where the next batch begins
    std::uint64_t epoch_ = 0;
    std::uint64_t window_ = 0;
    std::uint64_t size_ = 0;      // entries of the open window
    std::uint64_t position_ = 0;  // entry of the open window where the next batch begins
    std::uint64_t num_carried_ = 0;
    bool saw_full_epoch_ = false;  // this epoch was read from its beginning
    std::uint64_t epoch_entries_ = 0;
    std::uint64_t epoch_batches_ = 0;
};

}  // namespace sparsepool::stream
