#include "chess/formats/packedsfen/native/format.h"

namespace {

using namespace sparsepool;

constexpr auto kNext = chess::next_record<packedsfen::kBytes, packedsfen::read_record>;

}  // namespace

const packedsfen::Kernels packedsfen::Kernels::SPARSEPOOL_ISA{{kNext, chess::read_entries<kNext>}};
