#include "chess/native/files/line_walk.h"

#include <algorithm>

#include "chess/native/formats/text_fields.h"
#include "chess/native/kernels.h"
#include "common/simd.h"

namespace sparsepool::chess {

const Entry* LineWalk::next() {
    while (!damage_ && at_ < bytes_.size()) {
        begin_ = at_;
        const std::size_t end = std::min(bytes_.find('\n', begin_), bytes_.size());
        const std::string_view line = bare_line(bytes_.substr(begin_, end - begin_));
        if (!trimmed(line).empty() && !is_skipped(line)) {
            std::string wrong = read_line(line, demands_.needed, entry_);
            Illegal illegal = wrong == kNotOneKingEach ? Illegal::kKings : Illegal::kNone;
            if (wrong.empty() && demands_.on_illegal != OnIllegal::kKeep) illegal = find_illegal(entry_.position);
            if (illegal != Illegal::kNone && demands_.on_illegal == OnIllegal::kLeaveOut) {
                illegal_.add(illegal, begin_, lines_);
            } else if (!wrong.empty() || illegal != Illegal::kNone) {
                damage_ = {begin_, lines_, wrong.empty() ? words_of(illegal) : std::move(wrong), end == bytes_.size()};
                return nullptr;
            } else {
                at_ = std::min(end + 1, bytes_.size());
                ++lines_;
                return &entry_;
            }
        }
        at_ = std::min(end + 1, bytes_.size());
        ++lines_;
    }
    return nullptr;
}

std::size_t LineWalk::read(Record* out, std::size_t capacity, bool checks) {
    const auto write = simd::kernels<Kernels>().write_record;
    std::size_t count = 0;
    for (; count < capacity; ++count) {
        const Entry* entry = next();
        if (entry == nullptr) break;
        write(*entry, out[count]);
        if (!checks) out[count].flags &= static_cast<std::uint16_t>(~unsigned{kInCheck});
    }
    return count;
}

}  // namespace sparsepool::chess
