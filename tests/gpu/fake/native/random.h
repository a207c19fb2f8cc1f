#pragma once

#include <ATen/core/Generator.h>

// A generator for each device: a seed, and how much was drawn. As on a GPU, a kernel is told both when it is launched,
// so what it draws does not depend on when it runs.
namespace fakegpu {

const at::Generator& default_generator(int device);
at::Generator new_generator(int device);

// For one launch: a generator of the CPU kernel, from a generator of a device, or from the device's own.
at::Generator drawn_from(const std::optional<at::Generator>& generator, int device);

}  // namespace fakegpu
