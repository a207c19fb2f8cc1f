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
        const std::string_view line = strip_line(bytes_.substr(begin_, end - begin_));
        if (!trim(line).empty() && !is_skipped(line)) {
            std::string wrong = read_line(line, options_.required_parts, entry_);
            Illegal illegal = wrong.empty() ? Illegal::kNone : classify_problem(wrong);
            if (wrong.empty() && options_.on_illegal != OnIllegal::kKeep) illegal = find_illegal(entry_.position);
            if (wrong.empty() && illegal == Illegal::kNone) {
                end_line(end);
                return &entry_;
            }
            if (wrong.empty()) wrong = describe(illegal);
            if (!can_skip(options_, illegal)) {
                damage_ = {begin_, lines_, std::move(wrong), end == bytes_.size()};
                return nullptr;
            }
            skipped_.add_unit(illegal, wrong, begin_, lines_, {begin_, std::min(end + 1, bytes_.size()), lines_});
        }
        end_line(end);
    }
    return nullptr;
}

void LineWalk::end_line(std::size_t end) {
    at_ = std::min(end + 1, bytes_.size());
    ++lines_;
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
