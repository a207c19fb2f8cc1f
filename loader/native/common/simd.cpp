#include "common/simd.h"

#include <atomic>

#include "common/check.h"

namespace sparsepool::simd {
namespace {

std::atomic<Level>& current() {
    static std::atomic<Level> level{levels().back()};
    return level;
}

}  // namespace

Level level() { return current().load(std::memory_order_relaxed); }

std::string name_of(Level level) {
    switch (level) {
        case Level::kAvx512: return "avx512";
        case Level::kAvx2: return "avx2";
        case Level::kBaseline: break;
    }
    return "baseline";
}

std::vector<Level> levels() {
    std::vector<Level> found{Level::kBaseline};
#if defined(__x86_64__)
    for (const Level level : {Level::kAvx2, Level::kAvx512}) {
        if (can_run(level)) found.push_back(level);
    }
#endif
    return found;
}

void set_level(const std::string& name) {
    std::string allowed;
    for (const Level level : levels()) {
        if (name == name_of(level)) {
            current().store(level, std::memory_order_relaxed);
            return;
        }
        allowed += (allowed.empty() ? "" : ", ") + name_of(level);
    }
    refuse("SIMD level '", name, "' is not one that this CPU has: ", allowed);
}

}  // namespace sparsepool::simd
