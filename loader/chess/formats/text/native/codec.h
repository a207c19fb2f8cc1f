#pragma once

#include "chess/native/files/codec.h"

namespace sparsepool::text {

// Lines `FEN | score | result`, both White's; blanks around the parts count for nothing, and so do lines of blanks.
[[nodiscard]] const chess::Codec& codec();

}  // namespace sparsepool::text
