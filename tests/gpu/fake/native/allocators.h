#pragma once

#include <c10/core/Allocator.h>

// What torch takes memory from.
namespace fakegpu {

c10::Allocator& device_allocator();       // of the current device
c10::Allocator& page_locked_allocator();  // of the host: pin_memory()

}  // namespace fakegpu
