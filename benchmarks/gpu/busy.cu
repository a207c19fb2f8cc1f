// Work that changes memory all the time, for as long as `cycles`: does it go on when its process has died?

extern "C" __global__ void count_up(volatile unsigned* counter, unsigned cycles) {
    const long long begin = clock64();
    while (clock64() - begin < cycles) *counter = *counter + 1;
}
