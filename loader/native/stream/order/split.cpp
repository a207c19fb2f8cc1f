#include "stream/order/split.h"

#include <cmath>

#include "common/check.h"

namespace sparsepool::stream {

Split::Split(double share, bool validation, bool has_independent_records, std::size_t num_chunks, std::uint64_t seed)
    : share_(share), validation_(validation), key_(random::key_of(seed, random::Purpose::kSplit)) {
    require(share > 0.0 && share <= 0.5, "a share of validations is above 0 and at most 0.5, not ", share);
    const double validation_chunks = share * static_cast<double>(num_chunks);
    splits_chunks_ = has_independent_records && validation_chunks < static_cast<double>(kMinChunks);
    require(splits_chunks_ || validation_chunks >= 1.0, "data.validation_share: ", share, " of ", num_chunks,
            num_chunks == 1 ? " chunk" : " chunks", " is less than one: raise it, or name files in data.validation");
}

std::vector<std::uint32_t> Split::chunks(std::size_t num_chunks) const {
    const bool has_all_chunks = share_ == 0.0 || splits_chunks_;
    std::vector<std::uint32_t> chunks;
    for (std::size_t chunk = 0; chunk < num_chunks; ++chunk) {
        if (has_all_chunks || is_for_validation(chunk, 0) == validation_) {
            chunks.push_back(static_cast<std::uint32_t>(chunk));
        }
    }
    return chunks;
}

bool Split::has(std::size_t chunk, std::size_t record) const {
    if (!splits_chunks_) return true;
    return is_for_validation(record / kBlockRecords, static_cast<std::uint32_t>(chunk) + 1) == validation_;
}

// Whether chunk or block `index` is the one drawn of its group. `stream`: of random numbers, 0 for chunks, else of the
// blocks of one chunk.
bool Split::is_for_validation(std::uint64_t index, std::uint32_t stream) const {
    const std::uint64_t group = group_of(index);
    const std::uint64_t first = first_index_of(group);
    const auto size = static_cast<std::uint32_t>(first_index_of(group + 1) - first);
    const auto group_low = static_cast<std::uint32_t>(group);
    const auto group_high = static_cast<std::uint32_t>(group >> 32);
    const random::Words words = random::philox({group_low, group_high, stream, 0}, key_);
    return index == first + random::scale(words[0], size);
}

std::uint64_t Split::group_of(std::uint64_t index) const {
    return static_cast<std::uint64_t>(static_cast<double>(index) * share_);
}

// The least index of a group. The rounded quotient may be one off.
std::uint64_t Split::first_index_of(std::uint64_t group) const {
    auto index = static_cast<std::uint64_t>(std::ceil(static_cast<double>(group) / share_));
    while (index != 0 && group_of(index - 1) >= group) --index;
    while (group_of(index) < group) ++index;
    return index;
}

}  // namespace sparsepool::stream
