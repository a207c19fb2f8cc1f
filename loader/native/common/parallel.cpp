#include "common/parallel.h"

#include <system_error>
#include <thread>
#include <vector>

namespace sparsepool {

void run_parts(std::size_t parts, const std::function<void(std::size_t)>& part) {
    std::vector<std::jthread> threads;
    threads.reserve(parts);
    std::size_t given = 1;
    try {
        for (; given < parts; ++given) {
            threads.emplace_back(part, given);
        }
    } catch (const std::system_error&) {
        // no thread to be had: the rest is done below
    }
    part(0);
    for (; given < parts; ++given) {
        part(given);
    }
}

}  // namespace sparsepool
