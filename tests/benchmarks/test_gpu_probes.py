"""The kernels of `make gpu-bench`: they compile, and are launched as they expect to be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch

from benchmarks.gpu import atomic, busy
from pool._native import grid
from pool.kernels.cuda import launcher
from pool.kernels.cuda.compiler import Compiler, Source
from pool.kernels.cuda.launcher import Argument, Extent
from tests.pool.kernels.cuda import toolkit
from tests.pool.kernels.sparse_inputs import random_input


class Recorder:
    """A Launcher that launches nothing."""

    version = "none"

    def __init__(self) -> None:
        self.launched: list[tuple[str, object, int]] = []  # kernel, blocks and threads, arguments

    def launch(self, source: Source, kernel: str, extent: Extent, arguments: Sequence[Argument]) -> None:
        form = source.kernels[kernel]
        assert len(arguments) == len(form.parameters)
        self.launched.append((kernel, grid(extent, form.threads), len(arguments)))


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    launcher.launcher.cache_clear()
    launcher.launcher_factories["cpu"] = lambda _: made
    yield made
    del launcher.launcher_factories["cpu"]
    launcher.launcher.cache_clear()


@pytest.mark.parametrize("source", [busy.SOURCE, atomic.source(torch.uint16), atomic.source(torch.uint32)], ids=str)
def test_they_compile(source: Source) -> None:
    toolkit.require()
    assert Compiler("sm_75", None).compile(source)


def test_atomic_additions_have_a_block_for_each_bag(recorder: Recorder) -> None:
    layer = atomic.AtomicLayer(torch.randn(30, 64), random_input(50, 30))
    assert layer.forward().shape == (50, 64)
    assert layer.backward(torch.randn(50, 64)).shape == (30, 64)
    grid = (50, 1), (128, 1)
    assert recorder.launched == [("gather", grid, 5), ("scatter", grid, 5)]
