"""Whole runs of the task `clicks`: they find the model that the data were drawn from, and validations steer them the
same way whatever dies (I9)."""

from __future__ import annotations

import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pool.checkpoint.state import read_state
from pool.metrics.classification import AUC, LogLoss
from tests.support.data.clicks import FIELDS, ClickConfig, draw
from tests.support.paths import ROOT
from tests.support.runs import Ended, copied, run_well

BATCH, VALIDATION_BATCHES, SEED = 1024, 8, 42
CLICKS = {
    "task": "clicks",
    "data.source": "tests.support.data.clicks:ClickSource",
    "data.batch_size": BATCH,
    "data.validation": [str(ROOT / "README.md")],
    "model.fields": FIELDS,
    "optimizer.name": "pool.optim.Adam",
    "optimizer.args.lr": 0.05,
    "train.validation_batches": VALIDATION_BATCHES,
    "train.best_metric": "auc",
    "run.seed": SEED,
    "pool.devices": ["fake:0", "fake:1"],
}


def validations(ended: Ended) -> dict[int, dict[str, Any]]:
    """By step."""
    return {entry["step"]: entry for entry in ended.metrics() if "validation_loss" in entry}


def test_logistic_regression_finds_the_model_that_the_data_were_drawn_from(tmp_path: Path) -> None:
    schedule = {"schedule.name": "torch.optim.lr_scheduler.CosineAnnealingLR", "schedule.args.T_max": 200}
    weights = {"data.clicks.weights": True, "train.steps": 200, "train.validate_every": 100}
    ended = run_well(tmp_path / "run", {**CLICKS, **schedule, **weights})
    logits, labels = [], []
    for batch in range(VALIDATION_BATCHES):
        _, truth, drawn = draw(ClickConfig(), BATCH, SEED + zlib.crc32(b"README.md"), batch)
        logits.append(truth[:, 1])
        labels.append(drawn)
    sample_weights = np.tile(np.array([0.5, 2.0]), BATCH * VALIDATION_BATCHES // 2)
    arrays: dict[str, npt.NDArray[Any]] = {
        "scores": np.concatenate(logits),
        "labels": np.concatenate(labels),
        "weights": sample_weights,
    }
    found = validations(ended)
    assert found.keys() == {0, 100, 200}
    assert found[0]["validation_auc"] == 0.5
    assert found[200]["validation_auc"] > AUC(weights="weights").value(arrays) - 0.002
    assert found[200]["validation_log_loss"] == pytest.approx(LogLoss(weights="weights").value(arrays), rel=0.005)
    best = max((100, 200), key=lambda step: found[step]["validation_auc"])
    assert f"step-{best:09d}, validation auc {found[best]['validation_auc']:.6f}" in ended.out
    assert f"auc {found[200]['validation_auc']:.6f}  log_loss {found[200]['validation_log_loss']:.6f}" in ended.out


# --- early stopping: with so high a learning rate the AUC soon falls ---

STOPPING = {
    **CLICKS,
    "data.batch_size": 64,
    "optimizer.args.lr": 3.0,
    "train.validation_batches": 5,
    "train.validate_every": 2,
    "train.early_stopping": 2,
    "schedule.plateau.patience": 0,
    "schedule.plateau.factor": 0.9,
    "train.steps": 40,
    "train.checkpoint_every": 5,
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return run_well(tmp_path_factory.mktemp("stopping") / "run", STOPPING)


def first_bad_pair(ended: Ended) -> int:
    """The step at which two validations in a row have been no better than the best before them."""
    best, since = -math.inf, 0
    for step, entry in validations(ended).items():
        if step == 0:
            continue
        since = 0 if entry["validation_auc"] > best else since + 1
        best = max(best, entry["validation_auc"])
        if since == 2:
            return step
    raise AssertionError("never")


def test_a_run_ends_when_its_validations_get_no_better(undisturbed: Ended) -> None:
    stopped = first_bad_pair(undisturbed)
    assert stopped < 40
    assert max(validations(undisturbed)) == stopped
    state = read_state(undisturbed.dir / "checkpoints/last")
    assert (state.step, state.validations.since) == (stopped, 2)
    losses = {step: entry["validation_loss"] for step, entry in validations(undisturbed).items()}
    assert losses[stopped] > 4 * losses[min(losses)], "at this learning rate, which is the reason that is told"
    assert f"stopped early at step {stopped}: diverged at step " in undisturbed.out


def test_a_validation_that_is_no_better_reduces_the_learning_rate_of_the_next_step(undisturbed: Ended) -> None:
    found = validations(undisturbed)
    rate, best, expected = 3.0, -math.inf, []
    for step in range(max(found)):
        if step in found:
            rate *= 1.0 if found[step]["validation_auc"] > best * 1.0001 else 0.9
            best = max(best, found[step]["validation_auc"])
        expected.append(rate)
    assert min(expected) < 3.0
    lines = [entry["learning_rate"] for entry in undisturbed.metrics() if "learning_rate" in entry]
    assert lines == pytest.approx(expected)
    assert "auc gets no better: the learning rate is reduced from 3 to 2.7 (schedule.plateau)" in undisturbed.out


def test_whatever_dies_a_run_stops_at_the_same_step_with_the_same_bits(undisturbed: Ended, tmp_path: Path) -> None:
    stopped = first_bad_pair(undisturbed)
    killed = {
        "pool.devices": ["fake:0?crash=3", "fake:1"],
        "pool.snapshot_steps": 1,
        "testing.crash_points": [
            f"coordinator.before_commit@{stopped - 3}=kill",
            "coordinator.before_commit@1=kill",
            "worker.before_finish@5=kill",
            "feeder.batch_taken@9=kill",
        ],
    }
    first = run_well(tmp_path / "run", {**STOPPING, **killed, "train.steps": stopped - 2})
    ended = run_well(tmp_path / "run", {**STOPPING, **killed}, "--resume")
    assert "the run goes on from step" in first.out
    assert "the run goes on from step" in ended.out
    assert ended.digest() == undisturbed.digest()
    drop_time = [{**entry, "time": 0} for entry in validations(ended).values()]
    assert drop_time == [{**entry, "time": 0} for entry in validations(undisturbed).values()]


def test_a_resumed_run_that_has_stopped_says_so_and_goes_on_with_more_patience(
    undisturbed: Ended, tmp_path: Path
) -> None:
    folder = copied(undisturbed, tmp_path / "run")
    stopped = first_bad_pair(undisturbed)
    again = run_well(folder, STOPPING, "--resume")
    (line,) = [line for line in again.out.splitlines() if "stopped early" in line]
    assert f"stopped early at step {stopped}: " in line
    assert line.endswith("(train.early_stopping = 2); to go on raise it, or leave it out")
    assert again.digest() == undisturbed.digest()
    more = {**STOPPING, "train.early_stopping": 3, "train.steps": stopped + 2}
    ended = run_well(folder, more, "--resume")
    known = read_state(folder / "checkpoints/last").validations
    assert max(validations(ended)) == stopped + 2
    assert known.record is not None
    assert known.since == (0 if known.record.step == stopped + 2 else 3)
