#include "chess/formats/text/native/format.h"

using namespace sparsepool;

const text::Kernels text::Kernels::SPARSEPOOL_ISA{{text::next_line, chess::read_entries<text::next_line>}};
