"""Copies of the state on a device: the next step waits for what it changes, and for no more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor

from pool.checkpoint.store import Checkpoint
from pool.coordinator.exchange_setup.copies import DeviceCopies, StateCopy
from tests.gpu.fake import fakegpu

DEVICE = torch.device("fakegpu:0")
SIZE = 100_000


@pytest.fixture(autouse=True)
def _own_stream() -> Iterator[None]:
    torch.accelerator.set_device_index(0)
    torch.accelerator.set_stream(torch.Stream(device=DEVICE))
    yield
    fakegpu.make_late(None)


class Run:
    """Both versions of its weights, its optimizer's state and its averages, and a copy of them on its way, which is
    late: it happens when somebody waits for it."""

    def __init__(self) -> None:
        self.halves = [torch.full((SIZE,), float(version), device=DEVICE) for version in range(2)]
        self.moments, self.average = (torch.full((SIZE,), number, device=DEVICE) for number in (5.0, 6.0))
        torch.accelerator.synchronize(0)
        copies = DeviceCopies([DEVICE])
        fakegpu.make_late(copies._streams[DEVICE])
        facts: dict[str, Any] = dict.fromkeys(field.name for field in fields(Checkpoint))
        state = {"weights": {"w": self.halves[0]}, "optimizer_tensors": {"m": self.moments}, "divided": {}}
        self.copied: StateCopy = copies.start(Checkpoint(**{**facts, **state, "average": {"w": self.average}}))

    def step(self, version: int) -> None:
        """Makes a version, and waits for it as before it is published."""
        for tensor in (self.moments, self.average):
            tensor.add_(1.0)
        self.halves[version % 2].fill_(float(version))
        torch.accelerator.current_stream(DEVICE).record_event().synchronize()

    def found(self) -> tuple[float, float, float]:
        self.copied.wait()
        state = self.copied.state
        tensors = (state.weights["w"], state.optimizer_tensors["m"], state.average["w"])
        assert all(_is_one_number(tensor) for tensor in tensors)
        weights, moments, average = (float(tensor[0]) for tensor in tensors)
        return weights, moments, average


def _is_one_number(tensor: Tensor) -> bool:
    return bool((tensor == tensor[0]).all())


def test_the_next_step_waits_for_what_it_changes_and_not_for_the_weights() -> None:
    run = Run()
    run.step(1)
    assert not run.copied.is_complete, "the version is made, and the weights before it are not copied yet"
    assert run.found() == (0.0, 5.0, 6.0)


def test_the_step_behind_it_waits_for_the_weights() -> None:
    run = Run()
    run.step(1)
    run.copied.protect()
    run.step(2)
    assert run.copied.is_complete
    assert run.found() == (0.0, 5.0, 6.0)


def test_without_that_it_would_overwrite_them() -> None:
    run = Run()
    run.step(1)
    run.step(2)
    assert run.found()[0] == 2.0
