"""`pool check --measure`: what it says of made-up records, and of real steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool.analysis.speed import STEPS, WARM_UP, Speed, compute_speed, device_sets, format_speeds, short_run_changes
from pool.errors import RunError
from tests.support.runs import TOY, check

SHARES = {"compute": 0.7, "loader": 0.21, "reduce": 0.05, "optimizer": 0.04, "machines": 0.0, "weights": 0.0}


def test_the_median_of_the_steps_behind_the_first_counts() -> None:
    steps = [{"samples_per_second": rate, **SHARES} for rate in [1.0] * WARM_UP + [90.0, 100.0, 1000.0]]
    speed = compute_speed(["cpu"], steps)
    assert str(speed) == (
        "100 samples/s, bound by computing 70%, the loader 21%, the coordinator's sums of gradients 5%"
    )
    with pytest.raises(RunError, match="20 steps are too few to say anything; 21 are needed"):
        compute_speed(["cpu"], steps[:WARM_UP])


def test_one_device_and_all_are_compared() -> None:
    assert device_sets(["cpu"]) == [("cpu",)]
    assert device_sets(["cuda:0", "cuda:1"]) == [("cuda:0",), ("cuda:0", "cuda:1")]
    one, both = Speed(("a",), 100.0, SHARES), Speed(("a", "b"), 190.0, SHARES)
    assert [line.split()[:3] for line in format_speeds([one])] == [["with", "1", "device"]]
    assert list(format_speeds([one, both]))[1].endswith(": 1.90 times as fast")
    waits = Speed(("a", "b"), 105.0, {**SHARES, "weights": 0.9})
    assert list(format_speeds([one, waits]))[2].strip() == (
        "more than one device does not pay here: the exchange bounds the step"
    )


def test_a_measured_run_leaves_nothing_and_asks_for_no_more_than_it_needs() -> None:
    changed = {change.key: change.value for change in short_run_changes(["cpu"], "/tmp/run")}
    assert (changed["train.steps"], changed["train.checkpoint_every"], changed["run.sinks"]) == (STEPS, 0, [])


@pytest.mark.runs
@pytest.mark.parametrize("devices", [["cpu", "cpu"], ["fakegpu:0", "fakegpu:1"]], ids=["cpus", "fake GPUs"])
@pytest.mark.usefixtures("fakegpu_is_built", "cache_of_tests")
def test_real_steps_are_measured(devices: list[str], tmp_path: Path) -> None:
    module = "tests.gpu.fake.fakegpu" if "fakegpu:0" in devices else ""
    settings = {**TOY, "pool.devices": devices, "testing.device_module": module}
    ended = check(tmp_path / "run", settings, "--measure")
    assert ended.code == 0, ended.err
    one, both = ended.out[ended.out.index("Measured") :].splitlines()[1:3]
    assert one.startswith("with 1 device ")
    assert both.startswith("with 2 devices ")
    assert " samples/s, bound by " in one
    assert not (tmp_path / "run").exists()
