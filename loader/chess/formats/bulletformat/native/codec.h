#pragma once

#include "chess/native/files/codec.h"

namespace sparsepool::bulletformat {

[[nodiscard]] const chess::Codec& codec();

}  // namespace sparsepool::bulletformat
