#include "chess/formats/marlinformat/native/format.h"

namespace {

using namespace sparsepool;

constexpr auto kNext = chess::next_record<marlinformat::kBytes, marlinformat::read_record>;

}  // namespace

const marlinformat::Kernels marlinformat::Kernels::SPARSEPOOL_ISA{{kNext, chess::read_entries<kNext>}};
