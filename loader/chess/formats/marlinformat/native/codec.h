#pragma once

#include "chess/native/files/codec.h"

namespace sparsepool::marlinformat {

[[nodiscard]] const chess::Codec& codec();

}  // namespace sparsepool::marlinformat
