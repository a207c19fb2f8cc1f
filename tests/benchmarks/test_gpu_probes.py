"""What `make gpu-bench` asks of CUDA's driver, told to one that writes it down; and its kernels, compiled."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from benchmarks.gpu import atomic, busy
from pool.kernels.cuda.compiler import Compiler
from tests.pool.kernels.cuda import toolkit


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The real module's types, enumerations and names of functions; each function succeeds and is written down."""
    toolkit.require()
    importlib.import_module("cuda.bindings.nvrtc")  # it needs the real one
    real, called = importlib.import_module("cuda.bindings.driver"), list[tuple[Any, ...]]()

    class Driver(ModuleType):
        def __getattr__(self, name: str) -> Any:
            found = getattr(real, name)  # raises if the driver has no such name
            if not name.startswith("cu"):
                return found

            def call(*arguments: Any) -> tuple[Any, ...]:
                called.append((name, *arguments))
                return real.CUresult.CUDA_SUCCESS, 77

            return call

    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", Driver("cuda.bindings.driver"))
    return called


def test_a_kernel_is_compiled_that_keeps_counting(
    driver: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 9))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: type("Stream", (), {"cuda_stream": 3}))
    busy._count_up(torch.zeros(16, dtype=torch.uint8))
    launches = [call for call in driver if call[0] == "cuLaunchKernel"]
    assert len(launches) > 1
    assert launches[0][2:10] == (1, 1, 1, 1, 1, 1, 0, 3)


def test_atomic_additions_are_compiled_and_launched(
    driver: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in ("unsigned", "unsigned short"):
        assert Compiler("sm_75", None).compile(atomic.source(index))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 9))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: type("Stream", (), {"cuda_stream": 3}))
    sparse = importlib.import_module("tests.pool.kernels.sparse_inputs").random_input(50, 30)
    layer = atomic.AtomicLayer(torch.randn(30, 64), sparse)
    assert layer.forward().shape == (50, 64)
    assert layer.backward(torch.randn(50, 64)).shape == (30, 64)
    assert [call[2:10] for call in driver if call[0] == "cuLaunchKernel"] == [(50, 1, 1, 128, 1, 1, 0, 3)] * 2
