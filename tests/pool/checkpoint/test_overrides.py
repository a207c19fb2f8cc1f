"""`--override`: numbers of optimizer and schedule changed at a resume, once, whatever dies afterwards (I9)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import nan
from pathlib import Path
from typing import Any

import pytest

from pool.checkpoint.overrides import Override, allowed, applied, to_apply
from pool.checkpoint.state import FOLDER, read_state
from pool.errors import ConfigError
from pool.supervisor.prepare.overrides import parse_override
from tests.support.runs import TOY, Ended, WholeRun, copied, run, run_well
from tests.support.schedules import rates, scheduled

LR = "optimizer.args.lr"


SCHEDULES = [
    (None, {}),
    ("StepLR", {"step_size": 3}),
    ("MultiStepLR", {"milestones": [2, 5], "gamma": 0.5}),
    ("CosineAnnealingLR", {"T_max": 12}),
    ("LinearLR", {"start_factor": 0.5, "total_iters": 8}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 20}),
    ("CosineAnnealingWarmRestarts", {"T_0": 5}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 1.0, "step_size_up": 5, "cycle_momentum": False}),
]


@pytest.mark.parametrize(("schedule", "arguments"), SCHEDULES, ids=[str(name) for name, _ in SCHEDULES])
def test_the_rate_is_the_new_one_at_once_and_the_schedule_goes_on_in_proportion(
    schedule: str | None, arguments: dict[str, Any]
) -> None:
    whole = rates(scheduled(schedule, arguments), 0, 12)
    optimizers = scheduled(schedule, arguments)
    rates(optimizers, 0, 4)
    optimizers.override(Override(4, LR, 0.001))
    assert optimizers.learning_rate == 0.001
    assert rates(optimizers, 4, 12) == pytest.approx([0.001 * rate / whole[4] for rate in whole[4:]], abs=1e-12)


def test_an_override_is_part_of_the_state_and_is_applied_once() -> None:
    optimizers = scheduled("StepLR", {"step_size": 3})
    rates(optimizers, 0, 4)
    override = Override(4, LR, 0.5)
    optimizers.override(override)
    rates(optimizers, 4, 8)
    tensors, plain = optimizers.state()
    successor = scheduled("StepLR", {"step_size": 3})
    successor.load_state(tensors, json.loads(json.dumps(plain)))
    before = successor.learning_rate
    successor.override(override)
    assert successor.learning_rate == before != 0.5
    assert plain["overrides"] == [{"step": 4, "key": LR, "value": 0.5}]


def test_arguments_of_the_schedule_are_replaced() -> None:
    optimizers = scheduled("MultiStepLR", {"milestones": [2, 5], "gamma": 0.5})
    rates(optimizers, 0, 3)
    optimizers.override(Override(3, "schedule.args.milestones", [4, 6, 6]))
    optimizers.override(Override(3, "schedule.args.gamma", 0.1))
    assert rates(optimizers, 3, 8) == pytest.approx([0.5, 0.05, 0.05, 0.0005, 0.0005])


def test_the_state_that_an_override_is_applied_to_stays_as_it_is() -> None:
    _, plain = scheduled("StepLR", {"step_size": 3}).state()
    before = json.dumps(plain)
    assert applied(plain, Override(0, "optimizer.args.momentum", 0.5))["groups"][0][0]["momentum"] == 0.5
    assert json.dumps(plain) == before
    assert {LR, "optimizer.args.momentum", "schedule.args.gamma"} <= set(allowed(plain))
    assert not {"optimizer.args.initial_lr", "schedule.args.last_epoch"} & set(allowed(plain))


def test_numbers_that_one_member_has_are_changed_in_it_alone() -> None:
    group = {"lr": 1.0, "momentum": 0.9}
    state = {"groups": [[group], [{"lr": 1.0, "betas": [0.9, 0.99]}]], "schedulers": [{"gamma": 0.5}, {"T_max": 5}]}
    assert allowed(state) == [
        LR,
        "optimizer.args.momentum",
        "optimizer.args.betas",
        "schedule.args.gamma",
        "schedule.args.T_max",
    ]
    changed = applied(state, Override(0, "optimizer.args.momentum", 0.5))
    assert changed["groups"] == [[{**group, "momentum": 0.5}], state["groups"][1]]
    assert applied(state, Override(0, "schedule.args.T_max", 7))["schedulers"] == [{"gamma": 0.5}, {"T_max": 7}]


A, B = Override(8, LR, 0.5), Override(8, LR, 0.1)
LATER = Override(12, LR, 0.01)
NAN = Override(4, LR, nan)


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
        (8, [NAN], [], [(LR, nan)], [], [NAN]),
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
        "nan again",
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


@pytest.mark.parametrize("text", ["lr", "lr=", "=5", "lr=5e-4x", "lr=1\nx=2", f"lr={'[' * 9999}"])
def test_what_is_no_key_and_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--override .*: expected KEY=VALUE"):
        parse_override(text)
    with pytest.raises(ConfigError, match=r"^--override lr: a date or time can't be a setting"):
        parse_override("lr=1979-05-27")
    assert parse_override("optimizer.args.betas=[0.9, 0.99]") == ("optimizer.args.betas", [0.9, 0.99])


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
def eight(whole_run: WholeRun) -> Ended:
    """A run of eight steps."""
    return whole_run(SETTINGS)


@pytest.fixture(scope="module")
def undisturbed(eight: Ended, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """It goes on for six steps, with a learning rate of 0.5 to begin with."""
    return run_well(copied(eight, tmp_path_factory.mktemp("undisturbed") / "run"), LONGER, *CHANGE)


@pytest.mark.runs
def test_a_resumed_run_goes_on_with_what_it_is_told_and_records_it(undisturbed: Ended) -> None:
    assert f"{LR} becomes 0.5 now" in undisturbed.out
    found = [record["learning_rate"] for record in undisturbed.metrics()]
    assert found[8:] == pytest.approx([0.5 * 0.9**n for n in range(6)])
    assert read_state(undisturbed.dir / FOLDER / "last").optimizer.overrides == [Override(8, LR, 0.5)]
    assert json.loads((undisturbed.dir / "config.json").read_text())["overrides"] == [
        {"step": 8, "key": LR, "value": 0.5}
    ]


@pytest.mark.runs
@pytest.mark.parametrize("point", ["after_publish@1", "after_publish@2"], ids=["from disk", "from memory"])
def test_a_coordinator_that_dies_after_an_override_changes_nothing(
    point: str, eight: Ended, undisturbed: Ended, tmp_path: Path
) -> None:
    settings = {**LONGER, "testing.crash_points": [f"coordinator.{point}=kill"]}
    killed = run_well(copied(eight, tmp_path / "run"), settings, *CHANGE)
    assert f"the run goes on from step {8 if point.endswith('1') else 9}" in killed.out
    assert killed.digest() == undisturbed.digest()


@pytest.mark.runs
def test_a_run_that_is_killed_before_its_next_checkpoint_is_resumed_with_the_override(
    eight: Ended, undisturbed: Ended, tmp_path: Path
) -> None:
    folder = copied(eight, tmp_path / "run")
    dead = run(folder, {**LONGER, "testing.crash_points": ["supervisor.report_heard@1=kill"]}, *CHANGE)
    assert dead.code == -9
    resumed = run_well(folder, LONGER, "--resume")
    assert f"{LR} becomes 0.5 now" in resumed.out
    assert resumed.digest() == undisturbed.digest()


@pytest.mark.runs
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
