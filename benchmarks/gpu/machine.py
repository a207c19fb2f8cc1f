"""The device that is measured, its clock, and how much of it: a card, or in a dry run the fake one of the tests."""

from __future__ import annotations

import importlib
import itertools
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch

Work = Callable[[], object]


@dataclass(frozen=True)
class Size:
    samples: int  # of a batch
    widths: tuple[int, ...]  # of the sparse layer
    repeats: int
    steps: int  # of a run
    width: int  # of the whole network's first layer


FULL = Size(samples=16_384, widths=(256, 1024, 3072), repeats=20, steps=300, width=1024)
DRY = Size(samples=256, widths=(32,), repeats=2, steps=6, width=32)


@dataclass(frozen=True)
class Machine:
    kind: str  # cuda, or the fake one's name
    count: int
    size: Size
    module: str = ""  # `testing.device_module` of runs on it

    @classmethod
    def found(cls, module: str, *, dry: bool) -> Machine:
        """Raises SystemExit if there is no device."""
        if module:
            importlib.import_module(module)
        kind = module.rpartition(".")[2] or "cuda"
        count = torch.get_device_module(kind).device_count() if module or torch.cuda.is_available() else 0
        if count == 0:
            raise SystemExit(
                f"torch {torch.__version__} in {sys.executable} sees no CUDA device; GPU_PYTHON=... names another "
                "Python, make gpu-dry tries all of it on a fake device"
            )
        return cls(kind, count, DRY if dry else FULL, module)

    @property
    def device(self) -> torch.device:
        return torch.device(self.kind, 0)

    @property
    def is_cuda(self) -> bool:
        return self.kind == "cuda"

    def synchronize(self) -> None:
        torch.accelerator.synchronize(self.device)

    def device_ms(self, work: Work) -> float:
        """Median of the time between events around it, queued in one go: what the device needs, as far as it is not
        kept waiting."""
        work()
        events = [torch.Event(self.device, enable_timing=True) for _ in range(self.size.repeats + 1)]
        events[0].record()
        for event in events[1:]:
            work()
            event.record()
        self.synchronize()
        return statistics.median(first.elapsed_time(then) for first, then in itertools.pairwise(events))

    def copy_speed(self) -> float:
        """GB/s of its own memory, read and written."""
        numbers = (1 << 28) if self.is_cuda else (1 << 16)
        source, to = (torch.zeros(numbers, device=self.device) for _ in range(2))
        return 2 * 4 * numbers / self.device_ms(lambda: to.copy_(source)) / 1e6
