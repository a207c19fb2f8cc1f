#pragma once

#include <cstdint>

#include "chess/native/files/walk.h"
#include "chess/native/formats/marlin_record.h"

namespace sparsepool::chess {
class Codec;
}

namespace sparsepool::marlinformat {

inline constexpr std::size_t kBytes = chess::kMarlinBytes;

inline namespace SPARSEPOOL_ISA {

// Decodes a record (marlin_record.h). Returns what is wrong, or null.
[[nodiscard]] inline const char* read_record(const std::uint8_t* bytes, unsigned required_parts, chess::Entry& entry) {
    std::int8_t white_result = 0;
    if (const char* problem = chess::read_marlin_board(bytes, required_parts, entry, white_result)) return problem;
    entry.move = {};
    const auto white_score = chess::load<std::int16_t>(bytes + 28);
    return chess::convert_score_view(white_score, entry.position.side, entry.score) ? nullptr : chess::kBadScore;
}

}  // namespace SPARSEPOOL_ISA

struct Kernels {
    chess::WalkKernels walk;

    static const Kernels baseline, avx2, avx512;  // common/simd.h
};

[[nodiscard]] const chess::Codec& codec();

}  // namespace sparsepool::marlinformat
