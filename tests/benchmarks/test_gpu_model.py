"""The chain model of a step on cards: bytes over speeds."""

from __future__ import annotations

import pytest

from benchmarks.gpu.model import Speeds, Step

MB, SPEEDS = 1 << 20, Speeds(memory=1000, to_host=20, to_card=200)
STEP = Step(layer=3000 * MB, touched=60 * MB, table=92 * MB)


@pytest.mark.parametrize(
    ("cards", "exchange", "where", "memory", "host", "card"),
    [
        (1, "local", "", 3000 + 2 * 60 + 6 * 92, 0, 0),
        (1, "device", "", 3000 + 2 * 60 + 6 * 92, 0, 0),
        (4, "device", "first", 3000 + 8 * 60 + 6 * 92, 3 * 60 + 92, 0),
        (4, "device", "all", 3000 + (8 * 60 + 6 * 92) / 4, 0, (3 * 60 + 3 * 92) / 4),
        (4, "host", "", 3000, 60 + 92, 0),
    ],
)
def test_a_step_takes_its_bytes_one_after_the_other(
    cards: int, exchange: str, where: str, memory: float, host: float, card: float
) -> None:
    """By hand: MiB in the cards' memory, on a card's link to the host, and between cards."""
    ms = (memory / 1000 + host / 20 + card / 200) * MB / 1e6
    assert STEP.ms(SPEEDS, cards, exchange, where) == pytest.approx(ms)
