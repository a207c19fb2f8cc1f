#include "numbers.cuh"

// The kernel that the stub driver does: memory[i] = value for its first `nbytes`.
KERNEL(128, 8) fill(unsigned char* __restrict__ memory, uint32 nbytes, uint32 value) {
    const uint64 at = item();
    if (at < nbytes) memory[at] = static_cast<unsigned char>(value);
}
