#pragma once

#include <string>

namespace sparsepool {

// Compiler of this build, for the fingerprint of what may change bits.
[[nodiscard]] inline std::string build_info() {
#if defined(__clang__)
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}

}  // namespace sparsepool
