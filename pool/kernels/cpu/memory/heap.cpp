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

constexpr std::size_t kHugePage = std::size_t{2} << 20;  // bytes, on x86-64
constexpr std::size_t kHeap = std::size_t{1900} << 20;   // below the trim threshold: memory that is freed stays

// Requests huge pages for the next 1.9 GB of the heap, before any of it is used. Costs only address space.
void request_huge_pages() {
    void* block = std::malloc(kHeap);
    if (block == nullptr) return;
    const auto begin = reinterpret_cast<std::uintptr_t>(block);
    const auto first_page = (begin + kHugePage - 1) / kHugePage * kHugePage;
    const auto end_page = (begin + kHeap) / kHugePage * kHugePage;
    madvise(reinterpret_cast<void*>(first_page), end_page - first_page, MADV_HUGEPAGE);  // advice: it may fail
    std::free(block);
}

}  // namespace

bool keep_freed_memory() {
    constexpr int kTopPad = 64 << 20;  // bytes that the heap grows by beyond what is asked for
    const bool is_set =
        mallopt(M_MMAP_MAX, 0) == 1 && mallopt(M_TRIM_THRESHOLD, INT_MAX) == 1 && mallopt(M_TOP_PAD, kTopPad) == 1;
    if (is_set) request_huge_pages();
    return is_set;
}

void return_free_memory() { malloc_trim(kHeap); }  // the heap's end stays: it is to come in huge pages

#else

bool keep_freed_memory() { return false; }

void return_free_memory() {}

#endif

}  // namespace sparsepool
