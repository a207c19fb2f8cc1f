#include "stream/cutter.h"

#include <utility>

namespace sparsepool::stream {

void Cutter::seek(const Cursor& cursor) {
    next_ = cursor;
    epoch_ = cursor.epoch;
    window_ = cursor.window;
    size_ = 0;
    position_ = cursor.entry;
    num_carried_ = 0;
    saw_full_epoch_ = false;
}

// Opens the next window. Starts the counts of an epoch at its first window.
bool Cutter::open(std::uint64_t size) {
    if (position_ > size) return false;
    size_ = size;
    if (window_ == 0) {
        saw_full_epoch_ = position_ == 0;
        epoch_entries_ = 0;
        epoch_batches_ = 0;
    }
    epoch_entries_ += size;
    return true;
}

// Cuts the next batch off the open window, after all carried entries.
Cut Cutter::cut() {
    const std::uint64_t count = batch_size_ - num_carried_;
    Cut cut{next_, {}, position_, count};
    position_ += count;
    num_carried_ = 0;
    ++epoch_batches_;
    ++next_.batch;
    if (position_ < size_) {
        next_.epoch = epoch_;
        next_.window = window_;
        next_.entry = position_;
    } else {
        // The end of a window is written as the beginning of the next one, so that a seek decodes no window in vain.
        const bool is_last_window = window_ + 1 == num_windows_;
        next_.epoch = is_last_window ? epoch_ + 1 : epoch_;
        next_.window = is_last_window ? 0 : window_ + 1;
        next_.entry = 0;
    }
    cut.next = next_;
    return cut;
}

// Closes the window. At the end of an epoch the tail may be dropped.
WindowTail Cutter::close() {
    WindowTail tail{position_, size_ - position_, false, {}};
    num_carried_ += tail.count;
    size_ = 0;
    position_ = 0;
    ++window_;
    if (window_ < num_windows_) return tail;
    // The epoch ends here.
    window_ = 0;
    ++epoch_;
    tail.is_dropped = drop_tail_;
    if (drop_tail_) num_carried_ = 0;
    tail.no_batch_reason = find_no_batch_reason();
    return tail;
}

// Why the epoch that ends gave no batch; empty if it gave one, or if it was not read from its beginning.
std::string Cutter::find_no_batch_reason() const {
    if (!saw_full_epoch_) return {};
    if (epoch_entries_ == 0) {
        return "a whole epoch has no entry: there is none, or no entry passes the filters; loader inspect says what "
               "the file holds";
    }
    if (drop_tail_ && epoch_batches_ == 0) {
        return "a whole epoch has " + std::to_string(epoch_entries_) +
               " entries after the filters, less than a batch of " + std::to_string(batch_size_) +
               ", and data.tail = drop drops them all";
    }
    return {};
}

}  // namespace sparsepool::stream
