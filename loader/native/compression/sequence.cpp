#include "compression/sequence.h"

#include <algorithm>
#include <limits>

namespace sparsepool::packed {
namespace {

constexpr std::size_t kMostPassed = 64;         // pieces: threads ask for theirs in about the order of the file
constexpr std::size_t kMostCarried = 64 << 10;  // bytes of a restart point

}  // namespace

Piece Sequence::read(std::size_t piece) const {
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find(passed_, piece, &std::pair<std::size_t, Piece>::first);
    if (known != passed_.end()) {
        Piece found = std::move(known->second);
        passed_.erase(known);
        return found;
    }
    const FileDescriptor file(path_);
    input_.use(&file);
    std::optional<FileFault> fault = file.reopening_fault();
    Piece found;
    if (!fault) {
        go_to(piece);
        while (true) {
            const std::size_t number = next_;
            found = decode_next();
            if (number == piece || input_.fault()) break;
            if (piece - number > kMostPassed) continue;
            if (passed_.size() == kMostPassed) passed_.pop_front();
            passed_.emplace_back(number, std::move(found));
        }
        fault = input_.fault();
        if (std::optional<FileFault> changed = file.change(expected_)) fault = std::move(changed);
    }
    input_.use(nullptr);
    if (fault) {
        using enum stream::SourceFault::Kind;
        forget();
        found = {};
        found.fault =
            stream::SourceFault{path_, std::nullopt, std::move(fault->reason), fault->changed ? kChanged : kUnreadable};
    }
    return found;
}

// To the piece, or as near before it as can be had for nothing.
void Sequence::go_to(std::size_t piece) const {
    const auto behind = points_.upper_bound(piece);
    const bool has_point = behind != points_.begin();
    const std::size_t nearest = has_point ? std::prev(behind)->first : 0;
    if (unpacker_ && next_ <= piece && next_ >= nearest) return;
    unpacker_ = make_();
    damage_.reset();
    next_ = nearest;
    const Point start;
    const Point& point = has_point ? std::prev(behind)->second : start;
    carried_ = point.carried;
    begin_ = point.begin;
    num_units_ = point.units;
    input_.seek(0);
    unpacker_->restore(point.unpacker, input_);
}

Piece Sequence::decode_next() const {
    Piece piece;
    piece.begin = begin_;
    piece.first_unit = num_units_;
    piece.bytes = std::exchange(carried_, {});
    const bool last = next_ + 1 == num_pieces();
    const std::uint64_t end = last ? std::numeric_limits<std::uint64_t>::max() : (next_ + 1) * kPiece;
    const std::size_t searched = piece.bytes.size();  // no unit ends in what is carried
    std::string wrong;
    while (!damage_ && (unpacker_->inside() || !input_.at_end()) && unpacker_->position() < end) {
        wrong = unpacker_->next(input_, kMostBytes, piece.bytes);
        if (input_.fault()) return piece;
        if (!wrong.empty()) break;
    }
    const std::size_t whole = units_.whole(piece.bytes, searched);
    const std::uint64_t units = units_.count(std::string_view(piece.bytes).substr(0, whole));
    if (!wrong.empty()) {
        damage_ = stream::SourceFault{path_, unpacker_->position(),
                                      std::string(unpacker_->name()) + " data can't be decoded behind " +
                                          units_.word() + " " + std::to_string(num_units_ + units) + ": " + wrong};
    }
    piece.fault = damage_;
    if (!last || damage_) {
        carried_ = piece.bytes.substr(whole);
        piece.bytes.resize(whole);
    }
    begin_ += piece.bytes.size();
    num_units_ += units;
    ++next_;
    keep_point();
    return piece;
}

void Sequence::keep_point() const {
    if (damage_ || next_ % kPointEvery != 0 || points_.contains(next_) || carried_.size() > kMostCarried) return;
    if (std::optional<UnpackerState> state = unpacker_->state()) {
        points_[next_] = {std::move(*state), carried_, begin_, num_units_};
    }
}

void Sequence::forget() const {
    unpacker_.reset();
    passed_.clear();
    points_.clear();
}

}  // namespace sparsepool::packed
