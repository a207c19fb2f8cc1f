#pragma once

#include "tasks/chess/cpu/kernels.h"

namespace sparsepool::chess {

// `form` is sound (check_form); l1 is even if it is pairwise.
StackLayout layout_of(const StackForm& form, std::size_t l1);

}  // namespace sparsepool::chess
