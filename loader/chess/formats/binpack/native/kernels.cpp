#include "chess/formats/binpack/native/kernels.h"

#include "chess/formats/binpack/native/entries/lanes.h"

namespace {

using namespace sparsepool;

std::uint64_t walk_to_the_end(binpack::ChunkState& state) {
    std::uint64_t entries = 0;
    while (binpack::next_entry(state)) ++entries;
    return entries;
}

}  // namespace

const binpack::Kernels binpack::Kernels::SPARSEPOOL_ISA{binpack::next_entry, binpack::read_lanes, walk_to_the_end};
