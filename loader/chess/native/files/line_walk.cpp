#include "chess/native/files/line_walk.h"

#include <algorithm>

#include "chess/native/formats/text_fields.h"
#include "chess/native/kernels.h"
#include "common/simd.h"

namespace sparsepool::chess {

// Steps to the next good line.
const Entry* LineWalk::next() {
    while (!damage_ && offset_ < bytes_.size()) {
        line_begin_ = offset_;
        const std::size_t end = std::min(bytes_.find('\n', line_begin_), bytes_.size());
        const std::string_view line = strip_line(bytes_.substr(line_begin_, end - line_begin_));
        const bool has_entry = !trim(line).empty() && !is_ignored(line) && read_or_skip(line, end);
        if (damage_) return nullptr;
        end_line(end);
        if (has_entry) return &entry_;
    }
    return nullptr;
}

// Reads a line that ends at `end` into entry_. Returns false if it is bad, and then counts it as skipped or sets
// damage_.
bool LineWalk::read_or_skip(std::string_view line, std::size_t end) {
    std::string problem = read_line(line, options_.required_parts, entry_);
    Illegal illegal = Illegal::kNone;
    if (!problem.empty()) {
        illegal = classify_problem(problem);
    } else if (options_.on_illegal != OnIllegal::kKeep) {
        illegal = find_illegal(entry_.position);
        if (illegal != Illegal::kNone) problem = describe(illegal);
    }
    if (problem.empty()) return true;
    if (can_skip(options_, illegal)) {
        const Extent extent{line_begin_, std::min(end + 1, bytes_.size()), lines_};
        skipped_.add_unit(illegal, problem, line_begin_, lines_, extent);
    } else {
        damage_ = {line_begin_, lines_, std::move(problem), end == bytes_.size()};
    }
    return false;
}

void LineWalk::end_line(std::size_t end) {
    offset_ = std::min(end + 1, bytes_.size());
    ++lines_;
}

// Reads up to `capacity` entries as records. Without `checks` the flag kInCheck is not set.
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
