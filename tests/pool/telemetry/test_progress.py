"""The line on the screen: complete where there is room, the needed parts where there is not."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pool.protocol.messages import MetricValue, RunReport, Shares
from pool.telemetry import progress
from pool.telemetry.progress import ProgressLine, describe

REPORT = RunReport(
    step=400,
    steps=3000,
    epoch=16,
    samples=400 * 8192,
    seconds=20.0,
    samples_per_step=8192,
    losses=(0.001125,),
    validation_losses=(0.002,),
    validation_step=300,
    learning_rate=8.75e-4,
    shares=Shares(compute=0.55, loader=0.09, reduce=0.02, optimizer=0.11, weights=0.23),
    compute_seconds=19.5,
    checkpoint=-1,
    finished=False,
)


def test_all_is_shown_where_there_is_room() -> None:
    assert describe(REPORT) == describe(REPORT, 200)
    assert describe(REPORT) == (
        "step 400/3000  epoch 16  163.84 k samples/s  loss 0.001125  validation 0.002000 of step 300  lr 0.000875  "
        "bound by compute 55% weights 23% optimizer 11% loader 9%  ETA 2:10"
    )


def test_metrics_of_the_task_stand_beside_the_validation_loss() -> None:
    measured = replace(REPORT, validation_metrics=(MetricValue("auc", (0.75,)), MetricValue("share", (0.5,))))
    assert "  validation 0.002000 of step 300  auc 0.750000  share 0.500000  lr " in describe(measured)
    assert "auc" not in describe(measured, 120)
    assert "ETA" not in describe(replace(measured, finished=True)), "it has ended early"


def test_of_several_members_the_lowest_the_median_and_the_highest_are_shown() -> None:
    several = replace(REPORT, losses=(0.3, 0.1, 0.2, math.nan), validation_losses=(1.0, 2.0, 4.0, 3.0))
    assert "  loss 0.100000 / 0.200000 / 0.300000  validation 1.000000 / 2.500000 / 4.000000 of step" in describe(
        several
    )
    assert "  loss " not in describe(replace(REPORT, losses=(math.nan, math.nan)))


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_a_narrow_line_fits_and_keeps_step_and_eta(width: int) -> None:
    line = describe(REPORT, width)
    assert len(line) <= width
    assert line.startswith("step 400/3000")
    assert line.endswith("ETA 2:10")


def test_before_the_first_step_no_loss_and_no_speed_are_shown() -> None:
    before = replace(REPORT, step=0, samples=0, seconds=0.0, losses=(), validation_losses=())
    assert "nan" not in describe(before)
    assert "samples/s" not in describe(before)


def test_off_a_terminal_no_line_comes_twice(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last step is reported when it is done, and once more when its checkpoint is written."""
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.0)
    line = ProgressLine()
    before = replace(REPORT, step=0, samples=0, validation_losses=(), validation_step=0)
    for report in (before, REPORT, REPORT, replace(REPORT, step=3000), replace(REPORT, step=3000, seconds=21.0)):
        line.show(report)
    line.show(replace(REPORT, step=3000, seconds=22.0, finished=True))
    validated = replace(REPORT, step=3000, validation_step=3000)
    line.show(validated)
    line.close()
    shown = capsys.readouterr().out.splitlines()
    assert [text.split("  ")[0] for text in shown] == ["step 400/3000", "step 3000/3000", "step 3000/3000"]
    assert "of step 3000" in shown[-1]


def test_off_a_terminal_the_first_eta_does_not_wait_behind_a_line_without_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 1e6)
    line = ProgressLine()
    resumed = replace(REPORT, step=400, samples=0, seconds=0.0)
    for report in (resumed, replace(REPORT, step=401), replace(REPORT, step=402)):
        line.show(report)
    line.close()
    shown = capsys.readouterr().out.splitlines()
    assert [text.split("  ")[0] for text in shown] == ["step 400/3000", "step 401/3000"]
    assert ["ETA" in text for text in shown] == [False, True]
