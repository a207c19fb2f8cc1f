"""Decides how many threads to start for native work."""

from __future__ import annotations

import torch

MEMORY_BOUND = 1 << 18  # min_work, in numbers, of a pass that is bound by memory
SCATTERED = 1 << 15  # min_work, in numbers, of a pass over scattered rows of a large table


def choose_num_threads(work: int, min_work: int) -> int:
    """Returns the number of threads for `work`, from 1 up to torch's number of threads, so that each has at least
    `min_work` of it.

    Fewer threads are better for little work, since starting a thread costs time.
    """
    return max(1, min(torch.get_num_threads(), work // min_work))
