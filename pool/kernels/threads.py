"""How many threads a piece of native work is worth."""

from __future__ import annotations

import torch

MEMORY_BOUND = 1 << 18  # numbers at least for each thread of a pass that is bound by memory
SCATTERED = 1 << 15  # where it goes from row to row of a large table


def worthwhile(work: int, least: int) -> int:
    """Up to torch's number of threads, each with at least `least` of the `work`: starting one costs time too."""
    return max(1, min(torch.get_num_threads(), work // least))
