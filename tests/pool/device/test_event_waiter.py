"""How threads wait for a device: asleep, but for the last of a step where there are cores enough."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from pool.config.load import parse_config
from pool.device.event_waiter import record_host_event


class Recorded:
    """In the place of torch.cuda.Event."""

    def __init__(self, **how: bool) -> None:
        self.how = how

    def record(self, stream: dict[str, int]) -> None:
        self.stream = stream


def stream(kind: str) -> torch.Stream:
    its: Any = SimpleNamespace(
        device=SimpleNamespace(type=kind), stream_id=7, device_index=2, device_type=1, record_event=lambda: "spinning"
    )
    return cast(torch.Stream, its)


def test_a_thread_that_waits_for_a_card_sleeps_unless_it_may_keep_a_core_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Event", Recorded)
    monkeypatch.setattr(torch.cuda, "Stream", dict)
    event: Any = record_host_event(stream("cuda"))
    assert event.how == {"blocking": True}
    assert event.stream == {"stream_id": 7, "device_index": 2, "device_type": 1}
    spinning: Any = record_host_event(stream("cuda"), spins=True)
    of_another_kind: Any = record_host_event(stream("fakegpu"))
    assert spinning == of_another_kind == "spinning"


@pytest.mark.parametrize(
    ("cores", "cards", "threads", "spins"),
    [(2, 1, 0, False), (4, 1, 0, False), (5, 1, 0, True), (16, 1, 0, True), (16, 1, 14, False), (26, 8, 0, False)],
)
def test_cores_are_kept_busy_where_all_that_computes_has_one(
    cores: int, cards: int, threads: int, spins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("loader.cores", "pool.config.tree"):
        monkeypatch.setattr(f"{module}.allowed_cores", lambda: cores)
    config = parse_config({"task": "tests.support.toy", "data": {"threads": threads}}, "test")
    assert config.has_cores_to_spin([f"cuda:{index}" for index in range(cards)]) is spins
