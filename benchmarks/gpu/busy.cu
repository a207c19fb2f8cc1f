#include "numbers.cuh"

// Work that changes memory all the time, for as long as `cycles`: does it go on when its process has died?
KERNEL(1, 1) count_up(volatile uint32* counter, uint32 cycles) {
    const long long begin = clock64();
    while (clock64() - begin < cycles) *counter = *counter + 1;
}
