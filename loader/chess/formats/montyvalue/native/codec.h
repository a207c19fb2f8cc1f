#pragma once

#include "chess/native/files/codec.h"

namespace sparsepool::montyvalue {

[[nodiscard]] const chess::Codec& codec();

}  // namespace sparsepool::montyvalue
