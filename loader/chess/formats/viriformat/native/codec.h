#pragma once

#include "chess/native/files/codec.h"

namespace sparsepool::viriformat {

[[nodiscard]] const chess::Codec& codec();

}  // namespace sparsepool::viriformat
