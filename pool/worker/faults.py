"""Scripted faults of a fake device: what a test wants to go wrong, done at the step and phase it names."""

from __future__ import annotations

import math
import os
import signal
import threading
import time

import torch
from torch import Tensor

from pool.device.names import Device, Fault, Phase


class Faults:
    """The scripted faults of one worker; empty after its first incarnation, so that a restart can succeed."""

    def __init__(self, device: Device, incarnation: int) -> None:
        self._compute_seconds = device.compute_ms / 1000
        self._pending: list[Fault] = list(device.faults) if incarnation == 1 else []
        self._nan: Fault | None = None  # of the batch in work

    def at(self, step: int, phase: Phase) -> None:
        """Does what is scripted for this point, or for the same phase of an earlier step it took no part in."""
        for fault in [f for f in self._pending if f.step <= step and f.phase == phase]:
            self._pending.remove(fault)
            self._do(fault)
        if phase == "forward" and self._compute_seconds:
            time.sleep(self._compute_seconds)

    def begin_batch(self, step: int) -> None:
        """Does what is scripted for a batch's forward."""
        self._nan = None
        self.at(step, "forward")

    def nan(self, losses: Tensor, first: int) -> Tensor:
        """`losses`, of members from number `first` on, with those that shall not be a number in this batch."""
        if self._nan is None:
            return losses
        factors = [math.nan if self._nan.concerns(first + i) else 1.0 for i in range(len(losses))]
        return losses * torch.tensor(factors, dtype=losses.dtype, device=losses.device)

    def _do(self, fault: Fault) -> None:
        if fault.kind == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault.kind == "hang":
            threading.Event().wait()
        elif fault.kind == "oom":
            raise MemoryError(f"scripted at step {fault.step}")
        elif fault.kind == "slow":
            time.sleep(fault.milliseconds / 1000)
        elif fault.kind == "nan":
            self._nan = fault
