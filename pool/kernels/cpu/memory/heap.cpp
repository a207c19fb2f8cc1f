#include "memory/heap.h"

#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if defined(__GLIBC__)
#include <malloc.h>
#include <sys/mman.h>
#endif

namespace sparsepool {

#if defined(__GLIBC__)

namespace {

constexpr std::size_t kHuge = std::size_t{2} << 20;     // bytes of a huge page on x86-64
constexpr std::size_t kHeap = std::size_t{1900} << 20;  // below the trim threshold: freed, it stays with the heap

// The heap's next 1.9 GB are asked for in huge pages, before any of it is touched. Address space alone; what is
// never used costs no memory.
void ask_for_huge_pages() {
    void* block = std::malloc(kHeap);
    if (block == nullptr) return;
    const auto first = (reinterpret_cast<std::uintptr_t>(block) + kHuge - 1) / kHuge * kHuge;
    const auto last = (reinterpret_cast<std::uintptr_t>(block) + kHeap) / kHuge * kHuge;
    madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);  // advice: where it fails, pages are small
    std::free(block);
}

}  // namespace

bool keep_freed_memory() {
    constexpr int kTopPad = 64 << 20;  // bytes that the heap grows by beyond what is asked for
    const bool kept =
        mallopt(M_MMAP_MAX, 0) == 1 && mallopt(M_TRIM_THRESHOLD, INT_MAX) == 1 && mallopt(M_TOP_PAD, kTopPad) == 1;
    if (kept) ask_for_huge_pages();
    return kept;
}

void return_free_memory() { malloc_trim(kHeap); }  // the heap's end stays: it is to come in huge pages

#else

bool keep_freed_memory() { return false; }

void return_free_memory() {}

#endif

}  // namespace sparsepool
