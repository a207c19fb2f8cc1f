"""Whole runs on fake GPUs: the same bits for any number of them, whatever happens; a CPU's numbers to rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.clicks.test_clicks_runs import CLICKS
from tests.stockfish.test_stockfish_training import SMALL
from tests.support.runs import TOY, Ended, WholeRun, copied, run, run_well

pytestmark = pytest.mark.usefixtures("fakegpu_is_built")
GPU = {"testing.device_module": "tests.fakegpu.fakegpu", "pool.devices": ["fakegpu:0"]}
ONE: dict[str, Any] = {**TOY, **GPU, "model.batch_norm": True, "pool.bucket_mb": 0.02, "train.batches_per_step": 3}
TWO: dict[str, Any] = {**ONE, "pool.devices": ["fakegpu:0", "fakegpu:1"]}


@pytest.mark.parametrize("batches_per_group", [1, 2])
def test_two_gpus_whose_workers_die_and_that_are_late_give_the_bits_of_one(
    batches_per_group: int, whole_run: WholeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I2."""
    k = {"train.batches_per_group": batches_per_group}
    monkeypatch.setenv("FAKEGPU", "delay_us=500,seed=5")
    points = ["worker.after_bucket@9=kill", "coordinator.after_publish@4=kill"]
    two = run_well(tmp_path / "two", {**TWO, **k, "testing.crash_points": points})
    assert "restarted" in two.out
    monkeypatch.delenv("FAKEGPU")
    assert two.digest() == whole_run({**ONE, **k}).digest()
    log = (two.dir / "logs/worker-0.log").read_text()
    assert "not page-locked" not in log


def test_a_run_that_goes_on_with_another_gpu_ends_with_the_same_bits(whole_run: WholeRun, tmp_path: Path) -> None:
    """I9."""
    cut = copied(whole_run({**ONE, "train.steps": 5}), tmp_path / "run")
    ended = run_well(cut, {**ONE, "pool.devices": ["fakegpu:1"]}, "--resume")
    assert ended.digest() == whole_run(ONE).digest()


FIRST_STEPS: dict[str, dict[str, Any]] = {
    "stockfish": {**SMALL, "train.validate_every": 1},
    "clicks, with values": {**CLICKS, "train.validate_every": 1},
    "groups": {**ONE, "train.batches_per_step": 5, "train.batches_per_group": 3, "train.validate_every": 1},
}


@pytest.mark.parametrize("settings", FIRST_STEPS.values(), ids=FIRST_STEPS)
def test_the_first_step_is_a_cpus_to_rounding(settings: dict[str, Any], tmp_path: Path) -> None:
    """With plain SGD, which does not blow differences up."""
    first = {**settings, "optimizer.name": "torch.optim.SGD", "train.steps": 1}
    gpu, cpu = (
        run_well(tmp_path / "gpu", {**first, **GPU}),
        run_well(tmp_path / "cpu", {**first, "pool.devices": ["fake:0"]}),
    )
    wanted = cpu.weights()
    for name, array in gpu.weights().items():
        np.testing.assert_allclose(array, wanted[name], rtol=1e-5, atol=1e-6, err_msg=name)
    assert validation_losses(gpu) == pytest.approx(validation_losses(cpu), rel=1e-5)


def validation_losses(ended: Ended) -> list[float]:
    losses = [entry["validation_loss"] for entry in ended.metrics() if entry.get("validation_loss") is not None]
    assert losses
    return losses


def test_a_gpu_whose_memory_is_full_at_the_start_ends_the_run_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKEGPU", "fail_context=1")
    ended = run(tmp_path / "run", ONE)
    assert ended.code == 71, ended.err
    assert "fakegpu:0 has no memory left to begin with" in ended.err
    assert "free it, or name another device in pool.devices" in ended.err


def test_a_gpu_whose_memory_runs_out_ends_the_run_with_what_to_lower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKEGPU", f"memory_bytes={1 << 17}")
    ended = run(tmp_path / "run", ONE)
    assert ended.code == 71, ended.err
    assert "Tried to allocate" in ended.err
    assert "lower data.batch_size or model sizes" in ended.err


@pytest.mark.parametrize(
    ("module", "complaint"),
    [
        ("tests.fakegpu.other", "pool.devices: 'fakegpu:0': allowed: cuda:N, cpu, auto"),
        ("tests.nothing.fakegpu", "testing.device_module: no module 'tests.nothing.fakegpu'"),
    ],
)
def test_a_device_or_a_module_that_is_not_there_is_said_in_one_line(
    module: str, complaint: str, tmp_path: Path
) -> None:
    ended = run(tmp_path / "run", {**ONE, "testing.device_module": module})
    assert ended.code == 2
    assert complaint in ended.err
