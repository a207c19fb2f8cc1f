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
        self._nan_fault: Fault | None = None  # of the batch in work

    def inject(self, step: int, phase: Phase) -> None:
        """Injects the faults that are scripted for this phase of the step, or of an earlier step that the worker took
        no part in. Sleeps before forward for as long as the fake device computes."""
        due = [fault for fault in self._pending if fault.step <= step and fault.phase == phase]
        for fault in due:
            self._pending.remove(fault)
            self._inject_fault(fault)
        if phase == "forward" and self._compute_seconds:
            time.sleep(self._compute_seconds)

    def start_batch(self, step: int) -> None:
        """Injects the faults that are scripted for the forward pass of a batch in this step."""
        self._nan_fault = None
        self.inject(step, "forward")

    def inject_nan(self, losses: Tensor, first_member: int) -> Tensor:
        """Returns `losses`, in which those are NaN that a test has scripted so for this batch. `first_member`: the
        member that the first loss belongs to."""
        if self._nan_fault is None:
            return losses
        factors = [math.nan if self._nan_fault.concerns(first_member + i) else 1.0 for i in range(len(losses))]
        return losses * torch.tensor(factors, dtype=losses.dtype, device=losses.device)

    def _inject_fault(self, fault: Fault) -> None:
        """Kills this process, hangs for ever, raises MemoryError, sleeps, or lets losses become NaN."""
        if fault.kind == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault.kind == "hang":
            threading.Event().wait()
        elif fault.kind == "oom":
            raise MemoryError(f"scripted at step {fault.step}")
        elif fault.kind == "slow":
            time.sleep(fault.milliseconds / 1000)
        elif fault.kind == "nan":
            self._nan_fault = fault
