"""A thread that waits for a real card leaves its core to others: `make gpu-check`."""

from __future__ import annotations

import time

import pytest
import torch

from pool.device.event_waiter import record_host_event

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.timeout(120),
]


def share_of_a_core(*, spins: bool) -> float:
    """Of the time that a thread waits for some tenths of a second of work on a stream of its own."""
    stream = torch.Stream(device=torch.device("cuda:0"))
    matrix = torch.rand(4096, 4096, device="cuda:0")
    torch.cuda.synchronize()
    with stream:
        for _ in range(200):
            matrix = matrix @ matrix
    event = record_host_event(stream, spins=spins)
    cpu, clock = time.thread_time(), time.perf_counter()
    event.synchronize()
    assert event.query()
    return (time.thread_time() - cpu) / (time.perf_counter() - clock)


def test_who_waits_sleeps_unless_a_core_may_be_kept_busy() -> None:
    share_of_a_core(spins=True)  # the first product loads its library
    assert share_of_a_core(spins=False) < 0.3
    assert share_of_a_core(spins=True) > 0.7
