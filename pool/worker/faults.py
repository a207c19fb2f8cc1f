"""Scripted faults of a fake device, for tests: does what a test wants to go wrong, at the step and phase that it
names."""

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
    """The scripted faults of one worker. There are none after its first process, so that a restart can succeed."""

    def __init__(self, device: Device, incarnation: int) -> None:
        """Reads the faults that the name of a fake device scripts. `incarnation`: the number of the worker's process;
        only the first has faults."""
        self._compute_seconds = device.compute_ms / 1000
        self._pending: list[Fault] = list(device.faults) if incarnation == 1 else []
        self._nan: Fault | None = None  # makes losses of the batch in work NaN

    def at(self, step: int, phase: Phase) -> None:
        """Does what is scripted for this phase of the step, or of an earlier step that the worker took no part in.
        Sleeps before forward for as long as the fake device computes."""
        for fault in [f for f in self._pending if f.step <= step and f.phase == phase]:
            self._pending.remove(fault)
            self._do(fault)
        if phase == "forward" and self._compute_seconds:
            time.sleep(self._compute_seconds)

    def begin_batch(self, step: int) -> None:
        """Does what a test has scripted for the forward pass of a batch in this step."""
        self._nan = None
        self.at(step, "forward")

    def nan(self, losses: Tensor, first: int) -> Tensor:
        """Returns `losses`, in which those are NaN that a test has scripted so for this batch. `first`: the number of
        the member that the first loss belongs to."""
        if self._nan is None:
            return losses
        factors = [math.nan if self._nan.concerns(first + i) else 1.0 for i in range(len(losses))]
        return losses * torch.tensor(factors, dtype=losses.dtype, device=losses.device)

    def _do(self, fault: Fault) -> None:
        """Carries out a scripted fault: kills this process, hangs for ever, raises MemoryError, sleeps, or lets losses
        become NaN."""
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
