#include "chess/formats/montyvalue/native/format.h"

namespace {

using namespace sparsepool;

constexpr auto kNext = chess::next_of_game<montyvalue::Game>;

}  // namespace

const montyvalue::Kernels montyvalue::Kernels::SPARSEPOOL_ISA{{kNext, chess::read_entries<kNext>}};
