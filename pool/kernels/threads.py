"""Decides how many threads to start for a piece of native work."""

from __future__ import annotations

import torch

MEMORY_BOUND = 1 << 18  # numbers at least for each thread of a pass that is bound by memory
SCATTERED = 1 << 15  # the same for a pass over scattered rows of a large table


def choose_num_threads(work: int, least: int) -> int:
    """Returns the number of threads for `work`, so that each has at least `least` of it: 1 up to torch's number of
    threads.

    Fewer threads are better for little work, since starting a thread costs time.
    """
    return max(1, min(torch.get_num_threads(), work // least))
