#pragma once

// Settings of the C library's allocator.
namespace sparsepool {

// Large blocks come from the heap and stay with the process when they are freed, rather than being mapped and
// unmapped each time: every page of a fresh mapping costs a fault, which for the activations of a batch takes
// several times as long as computing them. For processes that allocate the same sizes step after step; the
// price is that the process keeps its high-water mark. The heap's first 1.9 GB come in huge pages where the system
// allows it: rows of 4 KiB lie on a page each, and looking the pages up took a third of the sparse layer's time at
// 1024 outputs. Call it before the first large allocation. False where the C library can't be told.
bool keep_freed_memory();

// After `keep_freed_memory`: what is free now between blocks in use goes back to the system, once. For a process whose
// beginning took more than its steps do.
void return_free_memory();

}  // namespace sparsepool
