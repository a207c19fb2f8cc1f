"""Kernels on the CPU, in this process alone: torch's CPU is the device."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pool.kernels import backend
from pool.kernels.cuda import launcher
from tests.pool.kernels.cuda.on_cpu import CpuLauncher


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[CpuLauncher]:
    """The launcher of CPU tensors, for which native code serves nothing."""
    made = CpuLauncher(sanitized="CUDA_KERNELS_SANITIZED" in os.environ)
    monkeypatch.setattr(backend, "NATIVE", "none")
    launcher.launcher_factories["cpu"] = lambda _: made
    launcher.launcher.cache_clear()
    yield made
    del launcher.launcher_factories["cpu"]
    launcher.launcher.cache_clear()
