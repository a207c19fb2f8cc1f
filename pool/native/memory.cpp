#include "memory.h"

#include <climits>
#include <cstdlib>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace sparsepool {

bool keep_freed_memory() {
#if defined(__GLIBC__)
    constexpr int TOP_PAD = 64 << 20;  // bytes that the heap grows by beyond what is asked for
    return mallopt(M_MMAP_MAX, 0) == 1 && mallopt(M_TRIM_THRESHOLD, INT_MAX) == 1 &&
           mallopt(M_TOP_PAD, TOP_PAD) == 1;
#else
    return false;
#endif
}

}  // namespace sparsepool
