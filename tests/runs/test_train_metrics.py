"""train.metrics_every: the task's metrics of the step's own batches, the same whoever computes them, and no bit of the
weights depends on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.loader.rows.many_rows import FEATURES, make
from tests.support.runs import TOY, Ended, run, run_well

DEATHS = ["feeder.mid_batch@9=kill", "worker.before_finish@7=kill", "worker.after_finish@12=kill"]
DEATHS += ["coordinator.after_publish@6=kill"]


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "train.svm").write_bytes(make(3000, 5).text)
    return {
        "task": "clicks",
        "data.source": "rows",
        "data.rows": {"num_features": FEATURES, "label": "binary"},
        "data.batch_size": 100,
        "data.train": [str(tmp_path / "train.svm")],
        "model.fields": {"features": FEATURES},
        "optimizer.args.lr": 0.1,
        "train.steps": 12,
        "train.batches_per_step": 4,
        "train.metrics_every": 3,
        "pool.snapshot_steps": 2,
        "pool.devices": ["fake:0"],
    }


def measured(ended: Ended) -> dict[int, dict[str, Any]]:
    names = ("loss", "train_auc", "train_log_loss", "members")
    return {
        line["step"]: {name: line[name] for name in names if name in line}
        for line in ended.metrics()
        if "train_auc" in line
    }


def test_numbers_are_of_the_steps_own_batches(settings: dict[str, Any], tmp_path: Path) -> None:
    ended = run_well(tmp_path / "run", settings)
    found = measured(ended)
    assert list(found) == [3, 6, 9, 12]
    for line in found.values():
        assert line["train_log_loss"] == pytest.approx(line["loss"], rel=1e-6)
    assert 0.4 < found[3]["train_auc"] < found[12]["train_auc"] <= 1
    assert run_well(tmp_path / "plain", {**settings, "train.metrics_every": 0}).digest() == ended.digest()


@pytest.mark.parametrize("group", [1, 2])
def test_workers_and_deaths_change_no_number(group: int, settings: dict[str, Any], tmp_path: Path) -> None:
    settings |= {"train.batches_per_group": group}
    one = run_well(tmp_path / "one", settings)
    settings |= {"pool.devices": ["fake:0", "fake:1"], "testing.crash_points": DEATHS}
    two = run_well(tmp_path / "two", settings)
    assert two.out.count("restart") >= len(DEATHS) - 1
    assert measured(two) == measured(one)
    assert two.digest() == one.digest()


def test_each_member_has_its_own(settings: dict[str, Any], tmp_path: Path) -> None:
    alone = run_well(tmp_path / "alone", settings)
    settings |= {"ensemble.members": 2}
    both = measured(run_well(tmp_path / "both", settings))
    for step, line in measured(alone).items():
        assert both[step]["members"]["train_auc"][0] == line["train_auc"]
        assert len(both[step]["members"]["train_log_loss"]) == 2


def test_a_task_without_metrics_has_none(tmp_path: Path) -> None:
    ended = run(tmp_path / "run", {**TOY, "train.metrics_every": 2})
    assert ended.code != 0
    assert "train.metrics_every: the task tests.support.toy has no metrics: leave it out" in ended.err


def test_what_a_worker_says_has_a_limit(settings: dict[str, Any], tmp_path: Path) -> None:
    settings |= {"ensemble.members": 200, "train.batches_per_step": 8, "train.batches_per_group": 8}
    ended = run(tmp_path / "run", settings)
    assert "train.metrics_every: the batches of a group have 4800 losses and metrics; at most 4096" in ended.err
