#pragma once

#include <string>

namespace sparsepool {

// The version of the native code, as the run's fingerprint records it.
inline std::string build_info() {
#if defined(__clang__)
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}

}  // namespace sparsepool
