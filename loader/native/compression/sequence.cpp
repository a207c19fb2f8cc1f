#include "compression/sequence.h"

#include <algorithm>
#include <limits>

namespace sparsepool::packed {
namespace {

constexpr std::size_t kMaxReady = 64;               // pieces: threads ask for theirs in about the order of the file
constexpr std::size_t kMaxCarriedBytes = 64 << 10;  // of a restart point

}  // namespace

// Returns a piece that is ready, or decodes up to it. Any fault of the file discards all state.
Piece Sequence::read(std::size_t piece) const {
    const std::lock_guard lock(mutex_);
    const auto ready = std::ranges::find(ready_, piece, &std::pair<std::size_t, Piece>::first);
    if (ready != ready_.end()) {
        Piece result = std::move(ready->second);
        ready_.erase(ready);
        return result;
    }
    const FileDescriptor file(path_);
    input_.set_file(&file);
    Piece result;
    std::optional<FileFault> fault = file.reopening_fault();
    if (!fault) {
        seek(piece);
        result = decode_until(piece);
        fault = input_.fault();
        if (std::optional<FileFault> change = file.change(expected_)) fault = std::move(change);
    }
    input_.set_file(nullptr);
    if (!fault) return result;
    using enum stream::SourceFault::Kind;
    reset();
    Piece failed;
    failed.fault =
        stream::SourceFault{path_, std::nullopt, std::move(fault->reason), fault->changed ? kChanged : kUnreadable};
    return failed;
}

// Sets the unpacker to the piece, or to the nearest place before the piece from which decoding can go on: where it is
// now, or a restart point.
void Sequence::seek(std::size_t piece) const {
    const auto next_point = points_.upper_bound(piece);
    const bool has_point = next_point != points_.begin();
    const std::size_t point_piece = has_point ? std::prev(next_point)->first : 0;
    if (unpacker_ && next_ <= piece && next_ >= point_piece) return;
    unpacker_ = make_();
    damage_.reset();
    next_ = point_piece;
    const RestartPoint file_start;
    const RestartPoint& point = has_point ? std::prev(next_point)->second : file_start;
    carried_ = point.carried;
    begin_ = point.begin;
    num_units_ = point.units;
    input_.seek(0);
    unpacker_->restore(point.unpacker, input_);
}

// Decodes up to the piece and returns it. Pieces shortly before it stay ready for other threads.
Piece Sequence::decode_until(std::size_t piece) const {
    while (true) {
        const std::size_t number = next_;
        Piece decoded = decode_next();
        if (number == piece || input_.fault()) return decoded;
        if (piece - number > kMaxReady) continue;
        if (ready_.size() == kMaxReady) ready_.pop_front();
        ready_.emplace_back(number, std::move(decoded));
    }
}

// Decodes the next piece: all steps that begin in its bytes of the file. What follows its last unit is carried.
Piece Sequence::decode_next() const {
    Piece piece;
    piece.begin = begin_;
    piece.first_unit = num_units_;
    piece.bytes = std::exchange(carried_, {});
    const bool is_last = next_ + 1 == num_pieces();
    const std::uint64_t end = is_last ? std::numeric_limits<std::uint64_t>::max() : (next_ + 1) * kPiece;
    const std::size_t searched = piece.bytes.size();  // no unit ends in the carried bytes
    std::string problem;
    while (!damage_ && unpacker_->position() < end) {
        const bool is_at_end = !unpacker_->inside() && input_.at_end();
        if (is_at_end) break;
        problem = unpacker_->decode_next(input_, kMostBytes, piece.bytes);
        if (input_.fault()) return piece;
        if (!problem.empty()) break;
    }
    const std::size_t complete_size = units_.whole(piece.bytes, searched);
    const std::uint64_t num_units = units_.count(std::string_view(piece.bytes).substr(0, complete_size));
    if (!problem.empty()) {
        damage_ =
            stream::SourceFault{path_, unpacker_->position(),
                                std::string(unpacker_->name()) + " data can't be decoded behind " + units_.word() +
                                    " " + std::to_string(num_units_ + num_units) + ": " + problem};
    }
    piece.fault = damage_;
    if (!is_last || damage_) {
        carried_ = piece.bytes.substr(complete_size);
        piece.bytes.resize(complete_size);
    }
    begin_ += piece.bytes.size();
    num_units_ += num_units;
    ++next_;
    add_restart_point();
    return piece;
}

void Sequence::add_restart_point() const {
    if (damage_ || next_ % kPointEvery != 0 || points_.contains(next_) || carried_.size() > kMaxCarriedBytes) return;
    std::optional<UnpackerState> state = unpacker_->state();
    if (state) points_[next_] = {std::move(*state), carried_, begin_, num_units_};
}

void Sequence::reset() const {
    unpacker_.reset();
    ready_.clear();
    points_.clear();
}

}  // namespace sparsepool::packed
