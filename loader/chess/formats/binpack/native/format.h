#pragma once

namespace sparsepool::chess {
class Codec;
}

namespace sparsepool::binpack {

// Chains of entries in chunks; a piece of a file is a chunk.
[[nodiscard]] const chess::Codec& codec();

}  // namespace sparsepool::binpack
