#include <ATen/autocast_mode.h>
#include <torch/library.h>

// Under autocast linear layers compute in the lower precision, all else as it is.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) { KERNEL_PRIVATEUSEONE(linear, lower_precision_fp) }
