"""All that a recipe of today has, in three stages: the same bits for any number of workers, whoever is killed wherever,
and when it is stopped and goes on in any stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.chaos.oracle import CHESS
from tests.chaos.points import armed, came_by, chess_points, crash_points, together
from tests.support.recipes import digests, stage, train, write

pytestmark = pytest.mark.chaos

SETTINGS: dict[str, Any] = {
    **CHESS,
    "testing.history": False,
    "data.batch_size": 1024,
    "train.batches_per_step": 4,
    "train.checkpoint_every": 5,
    "train.validate_every": 0,
    "train.clip_norm": 0.05,
    "model.fake_quantization": ["rows", "dense", "activations"],
    "loss.mate_base": 4000.0,
    "loss.lambda_jitter.step": 0.01,
    "loss.lambda_jitter.step_keep": 0.9,
    "loss.lambda_jitter.sample": 0.005,
    "optimizer.name": "pool.optim.RangerLite",
    "optimizer.args": {"lr": 2e-3},
    "schedule.name": "torch.optim.lr_scheduler.OneCycleLR",
    "schedule.args": {"max_lr": 2e-3, "total_steps": 25, "cycle_momentum": False},
    "pool.snapshot_steps": 3,
}
STAGES = """
[[optimizer.groups]]
tensors = ["stacks.*weight"]
args = { weight_decay = 1e-9, lr = 1e-3 }

[[stage]]
name = "first"
[stage.train]
steps = 15
average = { kind = "swa", start = 5, every = 5 }
[[stage.loss.lambda_parts]]
start = 1.0
end = 0.7
curve = "cosine"
jitter = [0.0, 1.0]
steps = 6
[[stage.loss.lambda_parts]]
start = 0.7
end = 1.0
curve = "cosine"
jitter = [1.0, 0.2]

[[stage]]
name = "second"
train = { steps = 10, start_weights = "averaged" }

[[stage]]
name = "third"
start_with = "checkpoint"
data.batch_size = 512
schedule.args.max_lr = 1e-3
train = { steps = 20, batches_per_step = 3 }
"""
STEPS = {"first": 15, "second": 10, "third": 20}
NOT_HERE = {
    "coordinator.weights_copied",  # of torch's optimizers
    "coordinator.weights_stepped",
    "coordinator.mid_step",  # of a step in one pass with the sum
    "coordinator.mid_snapshot",  # of an optimizer that writes touched rows alone
    "worker.mid_table",  # of a gradient without a plan
}
AFTER = {name: {"coordinator.mid_average"} for name in ("second", "third")}  # they have no average


def points() -> dict[str, list[str]]:
    """Role -> names of all but the supervisor's."""
    found: dict[str, list[str]] = {}
    for of_role in (crash_points(), chess_points()):
        for role, names in of_role.items():
            found.setdefault(role, []).extend(name for name in names if name not in NOT_HERE)
    found.pop("supervisor")
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("recipe")
    train(write(folder, SETTINGS, STAGES))
    assert digests(folder / "runs").keys() == STEPS.keys()
    return digests(folder / "runs")


@pytest.mark.parametrize("workers", [1, 4])
def test_the_number_of_workers_changes_nothing(workers: int, undisturbed: dict[str, str], tmp_path: Path) -> None:
    devices = [f"fake:{number}" for number in range(workers)]
    train(write(tmp_path, {**SETTINGS, "pool.devices": devices}, STAGES))
    assert digests(tmp_path / "runs") == undisturbed


@pytest.mark.parametrize("names", together(points()), ids=" ".join)
def test_processes_that_are_killed_at_these_points_change_nothing(
    names: tuple[str, ...], undisturbed: dict[str, str], tmp_path: Path
) -> None:
    train(write(tmp_path, armed(SETTINGS, *(f"{name}=kill" for name in names)), STAGES))
    assert digests(tmp_path / "runs") == undisturbed
    for name in STEPS:
        assert set(came_by(stage(tmp_path / "runs", name))) == set(names) - AFTER.get(name, set())


@pytest.mark.parametrize("name", crash_points()["supervisor"])
def test_a_supervisor_that_is_killed_at_this_point_changes_nothing(
    name: str, undisturbed: dict[str, str], tmp_path: Path
) -> None:
    """In one stage after the other."""
    config = write(tmp_path, armed(SETTINGS, f"{name}=kill"), STAGES)
    for _ in STEPS:
        assert f"crash point {name}" in train(config, code=-9)
        write(tmp_path, SETTINGS, STAGES)
        train(config, "--until", list(STEPS)[len(list((tmp_path / "runs").glob("*-????????????"))) - 1])
        write(tmp_path, armed(SETTINGS, f"{name}=kill"), STAGES)
    assert digests(tmp_path / "runs") == undisturbed
