#include "chess/formats/viriformat/native/format.h"

namespace {

using namespace sparsepool;

constexpr auto kNext = chess::next_of_game<viriformat::Game>;

}  // namespace

const viriformat::Kernels viriformat::Kernels::SPARSEPOOL_ISA{{kNext, chess::read_entries<kNext>}};
