#pragma once

#include "chess/native/files/codec.h"

namespace sparsepool::packedsfen {

[[nodiscard]] const chess::Codec& codec();

}  // namespace sparsepool::packedsfen
