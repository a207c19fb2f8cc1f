#include "stream/cutter.h"

#include <utility>

namespace sparsepool::stream {

void Cutter::seek(const Cursor& cursor) {
    next_ = cursor;
    epoch_ = cursor.epoch;
    window_ = cursor.window;
    size_ = 0;
    position_ = cursor.entry;
    carried_ = 0;
    whole_epoch_ = false;
}

bool Cutter::open(std::uint64_t size) {
    if (position_ > size) return false;
    size_ = size;
    if (window_ == 0) {
        whole_epoch_ = position_ == 0;
        epoch_entries_ = 0;
        epoch_batches_ = 0;
    }
    epoch_entries_ += size;
    return true;
}

Cut Cutter::cut() {
    const std::uint64_t count = batch_size_ - carried_;
    Cut cut{next_, {}, position_, count};
    position_ += count;
    carried_ = 0;
    ++epoch_batches_;
    // Behind the last entry of a window is the beginning of the next one: a seek need not decode for nothing.
    ++next_.batch;
    next_.epoch = epoch_;
    next_.window = window_;
    next_.entry = position_;
    if (position_ == size_) {
        const bool last = window_ + 1 == num_windows_;
        next_.epoch = last ? epoch_ + 1 : epoch_;
        next_.window = last ? 0 : window_ + 1;
        next_.entry = 0;
    }
    cut.next = next_;
    return cut;
}

Rest Cutter::close() {
    Rest rest{position_, size_ - position_, false, {}};
    carried_ += rest.count;
    size_ = 0;
    position_ = 0;
    if (++window_ < num_windows_) return rest;
    window_ = 0;
    ++epoch_;
    rest.dropped = drop_tail_;
    if (drop_tail_) carried_ = 0;
    if (whole_epoch_ && epoch_entries_ == 0) {
        rest.starved =
            "a whole epoch has no entry: there is none, or no entry passes the filters; loader inspect says what the "
            "file holds";
    } else if (whole_epoch_ && drop_tail_ && epoch_batches_ == 0) {
        rest.starved = "a whole epoch has " + std::to_string(epoch_entries_) +
                       " entries after the filters, less than a batch of " + std::to_string(batch_size_) +
                       ", and data.tail = drop drops them all";
    }
    return rest;
}

}  // namespace sparsepool::stream
