"""The line on the screen: complete where there is room, the needed parts where there is not."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pool.protocol.messages import RunReport, Shares
from pool.telemetry.progress import describe

REPORT = RunReport(
    step=400,
    steps=3000,
    epoch=16,
    samples=400 * 8192,
    seconds=20.0,
    samples_per_step=8192,
    loss=0.001125,
    validation_loss=0.002,
    learning_rate=8.75e-4,
    shares=Shares(compute=0.55, loader=0.09, reduce=0.02, optimizer=0.11, weights=0.23),
    computed=19.5,
    checkpoint=-1,
    finished=False,
)


def test_all_is_shown_where_there_is_room() -> None:
    assert describe(REPORT) == describe(REPORT, 200)
    assert describe(REPORT) == (
        "step 400/3000  epoch 16  163.84 k samples/s  loss 0.001125  validation 0.002000  lr 0.000875  "
        "bound by compute 55% weights 23% optimizer 11% loader 9%  ETA 2:10"
    )


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_a_narrow_line_fits_and_keeps_step_and_eta(width: int) -> None:
    line = describe(REPORT, width)
    assert len(line) <= width
    assert line.startswith("step 400/3000")
    assert line.endswith("ETA 2:10")


def test_before_the_first_step_no_loss_and_no_speed_are_shown() -> None:
    before = replace(REPORT, step=0, samples=0, seconds=0.0, loss=math.nan, validation_loss=math.nan)
    assert "nan" not in describe(before)
    assert "samples/s" not in describe(before)
