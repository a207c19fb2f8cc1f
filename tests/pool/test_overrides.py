"""`--override`: numbers of optimizer and schedule changed at a resume, once, whatever dies afterwards (I9)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pool.buckets.plan import TensorSpec, make_plan
from pool.checkpoint.overrides import Override, allowed, applied, parse, to_apply
from pool.checkpoint.state import FOLDER, read_state
from pool.config import OptimizerConfig, ScheduleConfig
from pool.errors import ConfigError
from pool.optim.buckets import BucketOptimizers
from tests.support.runs import TOY, Ended, run, run_well

PLAN = make_plan([TensorSpec("w", (3,), "float32", 4)], [], [1])
LR = "optimizer.args.lr"


def make(schedule: str | None, arguments: dict[str, Any]) -> BucketOptimizers:
    parameter = nn.Parameter(torch.zeros(3))
    parameter.grad = torch.ones(3)
    name = None if schedule is None else f"torch.optim.lr_scheduler.{schedule}"
    return BucketOptimizers(
        PLAN,
        [parameter],
        OptimizerConfig(name="torch.optim.SGD", args={"lr": 1.0, "momentum": 0.9}),
        ScheduleConfig(name=name, args=arguments),
    )


def rates(optimizers: BucketOptimizers, begin: int, end: int) -> list[float]:
    found = []
    for step in range(begin, end):
        found.append(optimizers.learning_rate)
        optimizers.step(0)
        optimizers.end_step(step)
    return found


SCHEDULES = [
    (None, {}),
    ("StepLR", {"step_size": 3}),
    ("MultiStepLR", {"milestones": [2, 5], "gamma": 0.5}),
    ("CosineAnnealingLR", {"T_max": 12}),
    ("LinearLR", {"start_factor": 0.5, "total_iters": 8}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 20}),
    ("CosineAnnealingWarmRestarts", {"T_0": 5}),
]


@pytest.mark.parametrize(("schedule", "arguments"), SCHEDULES, ids=[str(name) for name, _ in SCHEDULES])
def test_the_rate_is_the_new_one_at_once_and_the_schedule_goes_on_in_proportion(
    schedule: str | None, arguments: dict[str, Any]
) -> None:
    whole = rates(make(schedule, arguments), 0, 12)
    optimizers = make(schedule, arguments)
    rates(optimizers, 0, 4)
    optimizers.override(Override(4, LR, 0.001))
    assert optimizers.learning_rate == 0.001
    assert rates(optimizers, 4, 12) == pytest.approx([0.001 * rate / whole[4] for rate in whole[4:]], abs=1e-12)


def test_an_override_is_part_of_the_state_and_is_applied_once() -> None:
    optimizers = make("StepLR", {"step_size": 3})
    rates(optimizers, 0, 4)
    override = Override(4, LR, 0.5)
    optimizers.override(override)
    rates(optimizers, 4, 8)
    tensors, plain = optimizers.state()
    successor = make("StepLR", {"step_size": 3})
    successor.load_state(tensors, json.loads(json.dumps(plain)))
    before = successor.learning_rate
    successor.override(override)
    assert successor.learning_rate == before != 0.5
    assert plain["overrides"] == [{"step": 4, "key": LR, "value": 0.5}]


def test_arguments_of_the_schedule_are_replaced() -> None:
    optimizers = make("MultiStepLR", {"milestones": [2, 5], "gamma": 0.5})
    rates(optimizers, 0, 3)
    optimizers.override(Override(3, "schedule.args.milestones", [4, 6, 6]))
    optimizers.override(Override(3, "schedule.args.gamma", 0.1))
    assert rates(optimizers, 3, 8) == pytest.approx([0.5, 0.05, 0.05, 0.0005, 0.0005])


def test_the_state_that_an_override_is_applied_to_stays_as_it_is() -> None:
    _, plain = make("StepLR", {"step_size": 3}).state()
    before = json.dumps(plain)
    assert applied(plain, Override(0, "optimizer.args.momentum", 0.5))["groups"][0][0]["momentum"] == 0.5
    assert json.dumps(plain) == before
    assert {LR, "optimizer.args.momentum", "schedule.args.gamma"} <= set(allowed(plain))
    assert not {"optimizer.args.initial_lr", "schedule.args.last_epoch"} & set(allowed(plain))


A, B = Override(8, LR, 0.5), Override(8, LR, 0.1)
LATER = Override(12, LR, 0.01)


@pytest.mark.parametrize(
    ("step", "history", "recorded", "given", "pending", "repeated"),
    [
        (8, [], [], [(LR, 0.5)], [A], []),
        (8, [], [A], [], [A], []),
        (8, [], [A], [(LR, 0.5)], [A], [A]),
        (8, [], [A], [(LR, 0.1)], [B], []),
        (12, [A], [A], [(LR, 0.5)], [], [A]),
        (12, [A], [A], [(LR, 0.01)], [LATER], []),
        (12, [A], [A], [], [], []),
        (4, [], [A], [], [A], []),
        (12, [], [A], [], [], []),
    ],
    ids=[
        "asked for",
        "died before its checkpoint",
        "the same command again",
        "another value, from the same checkpoint",
        "the same command again, later",
        "another one, later",
        "nothing new",
        "gone back to before it",
        "a past that was another",
    ],
)
def test_an_override_is_neither_lost_nor_applied_twice(
    step: int,
    history: Sequence[Override],
    recorded: Sequence[Override],
    given: Sequence[tuple[str, Any]],
    pending: Sequence[Override],
    repeated: Sequence[Override],
) -> None:
    assert to_apply(step, history, recorded, given) == (pending, repeated)


@pytest.mark.parametrize("text", ["lr", "lr=", "=5", "lr=5e-4x", "lr=1979-05-27", f"lr={'[' * 9999}"])
def test_what_is_no_key_and_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--override .*: expected KEY=VALUE"):
        parse(text)
    assert parse("optimizer.args.betas=[0.9, 0.99]") == ("optimizer.args.betas", [0.9, 0.99])


SETTINGS = {
    **TOY,
    "train.steps": 8,
    "train.checkpoint_every": 4,
    "schedule.name": "torch.optim.lr_scheduler.ExponentialLR",
    "schedule.args.gamma": 0.9,
}
LONGER = {**SETTINGS, "train.steps": 14, "train.checkpoint_every": 0, "pool.snapshot_steps": 3}
CHANGE = ("--resume", "--override", f"{LR}=0.5")


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of eight steps."""
    return run_well(tmp_path_factory.mktemp("eight") / "run", SETTINGS).dir


@pytest.fixture(scope="module")
def undisturbed(eight: Path, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """It goes on for six steps, with a learning rate of 0.5 to begin with."""
    return run_well(copied(eight, tmp_path_factory.mktemp("undisturbed")), LONGER, *CHANGE)


def copied(run: Path, to: Path) -> Path:
    return Path(shutil.copytree(run, to / "run", symlinks=True))


def test_a_resumed_run_goes_on_with_what_it_is_told_and_records_it(undisturbed: Ended) -> None:
    assert f"{LR} becomes 0.5 now" in undisturbed.out
    found = [record["learning_rate"] for record in undisturbed.metrics()]
    assert found[8:] == pytest.approx([0.5 * 0.9**n for n in range(6)])
    assert read_state(undisturbed.dir / FOLDER / "last").optimizer.overrides == [Override(8, LR, 0.5)]
    assert json.loads((undisturbed.dir / "config.json").read_text())["overrides"] == [
        {"step": 8, "key": LR, "value": 0.5}
    ]


@pytest.mark.parametrize("point", ["after_publish@1", "after_publish@2"], ids=["from disk", "from memory"])
def test_a_coordinator_that_dies_after_an_override_changes_nothing(
    point: str, eight: Path, undisturbed: Ended, tmp_path: Path
) -> None:
    settings = {**LONGER, "testing.crash_points": [f"coordinator.{point}=kill"]}
    killed = run_well(copied(eight, tmp_path), settings, *CHANGE)
    assert f"the run goes on from step {8 if point.endswith('1') else 9}" in killed.out
    assert killed.digest() == undisturbed.digest()


def test_a_run_that_is_killed_before_its_next_checkpoint_is_resumed_with_the_override(
    eight: Path, undisturbed: Ended, tmp_path: Path
) -> None:
    folder = copied(eight, tmp_path)
    dead = run(folder, {**LONGER, "testing.crash_points": ["supervisor.report_heard@1=kill"]}, *CHANGE)
    assert dead.code == -9
    resumed = run_well(folder, LONGER, "--resume")
    assert f"{LR} becomes 0.5 now" in resumed.out
    assert resumed.digest() == undisturbed.digest()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--override", f"{LR}=0.5"], "--override: changes a run that is resumed; without --resume use --set"),
        (
            ["--resume", "--override", "train.clip_norm=1"],
            "--override train.clip_norm: the checkpoint holds no such number; it has optimizer",
        ),
        (["--resume", "--override", f"{LR}=-1"], "--override optimizer.args.lr=-1: optimizer.args: "),
    ],
    ids=["no resume", "unknown key", "range"],
)
def test_an_override_that_can_not_be_is_one_line(arguments: list[str], complaint: str, undisturbed: Ended) -> None:
    ended = run(undisturbed.dir, {**LONGER, "train.steps": 20}, *arguments)
    assert ended.code == 2, ended.err
    assert ended.err.startswith(f"pool: {complaint}")
    assert len(ended.err.splitlines()) == 1
