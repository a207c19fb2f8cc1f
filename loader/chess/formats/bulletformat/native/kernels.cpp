#include "chess/formats/bulletformat/native/format.h"

namespace {

using namespace sparsepool;

constexpr auto kNext = chess::next_record<bulletformat::kBytes, bulletformat::read_record>;

}  // namespace

const bulletformat::Kernels bulletformat::Kernels::SPARSEPOOL_ISA{{kNext, chess::read_entries<kNext>}};
