#include "stream/order/split.h"

#include <cmath>

#include "common/check.h"

namespace sparsepool::stream {

Split::Split(double share, bool validation, bool apart, std::size_t num_chunks, std::uint64_t seed)
    : share_(share), validation_(validation), key_(random::key_of(seed, random::Purpose::kSplit)) {
    require(share > 0.0 && share <= 0.5, "a share of validations is above 0 and at most 0.5, not ", share);
    const double chunks = share * static_cast<double>(num_chunks);
    parts_chunks_ = apart && chunks < static_cast<double>(kFewChunks);
    require(parts_chunks_ || chunks >= 1.0, "data.validation_share: ", share, " of ", num_chunks,
            num_chunks == 1 ? " chunk" : " chunks", " is less than one: raise it, or name files in data.validation");
}

std::vector<std::uint32_t> Split::chunks(std::size_t num_chunks) const {
    std::vector<std::uint32_t> found;
    for (std::size_t chunk = 0; chunk < num_chunks; ++chunk) {
        if (share_ == 0.0 || parts_chunks_ || is_chosen(chunk, 0) == validation_) {
            found.push_back(static_cast<std::uint32_t>(chunk));
        }
    }
    return found;
}

bool Split::has(std::size_t chunk, std::size_t record) const {
    if (!parts_chunks_) return true;
    return is_chosen(record / kBlockRecords, static_cast<std::uint32_t>(chunk) + 1) == validation_;
}

bool Split::is_chosen(std::uint64_t place, std::uint32_t stream) const {
    const std::uint64_t run = run_of(place);
    const std::uint64_t first = first_of(run);
    const auto size = static_cast<std::uint32_t>(first_of(run + 1) - first);
    const random::Words words =
        random::philox({static_cast<std::uint32_t>(run), static_cast<std::uint32_t>(run >> 32), stream, 0}, key_);
    return place == first + random::scale(words[0], size);
}

std::uint64_t Split::run_of(std::uint64_t place) const {
    return static_cast<std::uint64_t>(static_cast<double>(place) * share_);
}

// The least place of a run: the quotient may be one off, by rounding.
std::uint64_t Split::first_of(std::uint64_t run) const {
    auto place = static_cast<std::uint64_t>(std::ceil(static_cast<double>(run) / share_));
    while (place != 0 && run_of(place - 1) >= run) --place;
    while (run_of(place) < run) ++place;
    return place;
}

}  // namespace sparsepool::stream
