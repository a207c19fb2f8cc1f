"""Export costs a network less that was trained with fake quantization: both losses on held-out positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from benchmarks import fake_quantization
from benchmarks.fake_quantization import EVERYTHING, config_of, measured, table
from tests.support.paths import ROOT

POSITIONS = 10_000
FILES = ROOT / "configs/sample/train.binpack", ROOT / "configs/sample/validation.binpack"
COARSE = [  # of the usual scales the loss of so small a network hardly knows
    {"weight": "l0w", "merge": "l0f", "type": "i16", "scale": 32},
    {"weight": "l0b", "type": "i16", "scale": 32},
    {"weight": "l1w", "type": "i16", "scale": 16, "transpose": True},
    {"weight": "l1b", "type": "i16", "scale": 512},
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("network", "changes"), [("SFNNv5@64", {}), ("king-buckets@16", {"model.export": COARSE})])
def test_the_gap_is_smaller_with_it(network: str, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_quantization, "config_of", lambda name: {**config_of(name), **changes})
    without, with_it = (measured(network, fake, FILES, 40, POSITIONS) for fake in ((), EVERYTHING))
    for row in (without, with_it):
        assert 0 < row.trained < 0.2
        assert row.exported == pytest.approx(row.trained, rel=0.1)
    assert with_it.apart < 1.0, table([with_it])  # what divisions cut off
    assert without.apart > 2 * with_it.apart, table([without, with_it])
    assert with_it.gap < without.gap, table([without, with_it])  # a mean: here, not in every setting
