#include "chess/formats/plain/native/format.h"

using namespace sparsepool;

const plain::Kernels plain::Kernels::SPARSEPOOL_ISA{{plain::next_position, chess::read_entries<plain::next_position>}};
