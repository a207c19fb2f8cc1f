"""What the optimizer does not write of the next version is that of the one before, copied ahead or not."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from pool.coordinator.update.changed_rows import ChangedRows
from pool.coordinator.update.unchanged_rows import CopyAllRows, CopyUntouchedRows, UnchangedRows
from pool.exchange.host.coordinator import HostShard
from pool.kernels.reduction import Addend

ROWS, FIRST, STEPS = 200, 40, 60  # the piece is rows 40 to 239 of its table


class Memory(HostShard):
    """Of the piece, as far as rows are copied."""

    def __init__(self) -> None:
        self.first_row = FIRST
        self._weights = [torch.rand(ROWS, 3) for _ in range(2)]


@pytest.mark.parametrize("kind", ["touched rows", "in place"])
@pytest.mark.parametrize("seed", range(4))
def test_the_next_version_is_the_same_copied_ahead_or_not(kind: str, seed: int) -> None:
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    changes = ChangedRows(FIRST + ROWS, copies=1)
    memory = Memory()
    carry: UnchangedRows = CopyUntouchedRows(memory, ROWS, changes) if kind == "touched rows" else CopyAllRows(memory)
    marked = np.zeros(FIRST + ROWS, bool)
    carry.mark_all_changed()
    for step in range(STEPS):
        old, new = memory.weights(step), memory.weights(step + 1)
        before = old.clone()
        if draw.random() < 0.6:
            carry.copy_early(step)
        touched = np.flatnonzero(rng.random(ROWS) < draw.choice([0.0, 0.1, 0.9])).astype(np.uint32) + FIRST
        gradients = [Addend(0, torch.zeros(ROWS, 3), touched)] if draw.random() < 0.9 else []
        carry.copy_before_step(step, gradients)
        written = touched.astype(np.int64) - FIRST if gradients else np.zeros(0, np.int64)
        new[written] = torch.rand(len(written), 3)
        untouched = np.setdiff1d(np.arange(ROWS), written)
        assert torch.equal(old, before), "I3: workers read it"
        assert torch.equal(new[untouched], old[untouched]), f"step {step}"
        marked[written + FIRST] = True
        if draw.random() < 0.1:  # a task's `after_step`
            new += 1.0
            carry.mark_all_changed()
            marked[FIRST:] = True
    if kind == "touched rows":
        changed = np.unpackbits(changes.changed_since(0).view(np.uint8), bitorder="little")[: FIRST + ROWS].astype(bool)
        assert not np.any(marked & ~changed), "a snapshot of changed rows would leave these out"
