"""Optimizer and schedule are tried out before a run begins."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from loader.stream.interface import Cursor
from pool.checkpoint import snapshot
from pool.checkpoint.overrides import Override
from pool.checkpoint.state import OptimizerNumbers, RunState
from pool.checkpoint.store import tensor_bytes
from pool.config.load import parse_config
from pool.errors import ConfigError, RunError
from pool.exchange.plan import Plan, TensorSpec, build_plan
from pool.optim.buckets import BucketOptimizers
from pool.planner import trial
from pool.planner.small_plan import shrink_plan
from pool.planner.trial import snapshot_nbytes

SHAPES = {"table.weight": (1000, 32), "bias": (32,), "scale": (1,), "deep.weight": (7, 300)}


ODD = "tests.support.tasks.odd_models"
STEP_LR = "torch.optim.lr_scheduler.StepLR"


def one_cycle(total_steps: int) -> dict[str, Any]:
    return {"name": "torch.optim.lr_scheduler.OneCycleLR", "args": {"max_lr": 0.1, "total_steps": total_steps}}


def plan() -> Plan:
    return build_plan([TensorSpec(name, shape, "float32", 4) for name, shape in SHAPES.items()], [], [1000, 100_000])


def config(tree: dict[str, Any]) -> Any:
    return parse_config({"task": "tests.support.toy", **tree}, "test")


@pytest.mark.parametrize(
    "optimizer",
    [
        {"name": "torch.optim.Adam", "args": {"fused": True}},
        {"name": "torch.optim.SGD", "args": {"lr": 0.1}},
        {"name": "torch.optim.SGD", "args": {"lr": 0.1, "momentum": 0.9}},
        {"name": "torch.optim.Adagrad"},
        {"name": "torch.optim.NAdam"},
        {"name": "pool.optim.RowwiseAdagrad"},
        {"name": "pool.optim.FTRL"},
        {"name": "torch.optim.Adafactor"},
        {"name": "pytorch_optimizer.StableSPAM"},
    ],
    ids=lambda optimizer: optimizer["name"],
)
def test_the_reserved_room_holds_the_real_state_and_not_much_more(optimizer: dict[str, Any]) -> None:
    settings = config({"optimizer": optimizer})
    reserved = snapshot_nbytes(settings, [plan()])
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in SHAPES.values()]
    optimizers = BucketOptimizers(plan(), parameters, settings.optimizer, settings.run_schedule)
    for _ in range(3):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        for bucket in range(len(plan().buckets)):
            optimizers.step(bucket)
        optimizers.end_step(0)
    tensors, plain = optimizers.state()
    weights = dict(zip(SHAPES, parameters, strict=True))
    kinds = {"weights": tensor_bytes(weights), "optimizer": tensor_bytes(tensors)}
    state = RunState(step=3, cursor=Cursor(1 << 40, 9, 9, 9), optimizer=OptimizerNumbers.of(plain))
    snapshot.SnapshotWriter(np.zeros(reserved, np.uint8)).write(state, kinds)
    used = sum(tensor.data.nbytes for kind in kinds.values() for tensor in kind)
    assert reserved < 1.1 * used + (32 << 10) or optimizer["name"] == "torch.optim.Adafactor"


@pytest.mark.parametrize(
    ("tree", "complaint"),
    [
        ({"optimizer": {"name": "torch.optim.LBFGS"}}, "optimizer.name: torch.optim.LBFGS"),
        ({"optimizer": {"name": "torch.optim.SparseAdam"}}, "optimizer.name: torch.optim.SparseAdam: can't be used"),
        (
            {"schedule": {"name": "torch.optim.lr_scheduler.ReduceLROnPlateau"}},
            "schedule.name: torch.optim.lr_scheduler.ReduceLROnPlateau steps with validations, not with steps: set",
        ),
        ({"schedule": {"name": "torch.optim.lr_scheduler.LambdaLR", "args": {"lr_lambda": 3}}}, "schedule"),
        (
            {"optimizer": {"name": "torch.optim.Adam", "args": {"eps": 1e-8, "betas": []}}},
            "optimizer.args: torch.optim.Adam: IndexError: tuple index out of range (it is optimizer.args.betas = []:",
        ),
        ({"optimizer": {"args": {"betas": []}}}, "(it is optimizer.args.betas = []:"),
        ({"optimizer": {"args": {"eps": "1e-8"}}}, "(it is optimizer.args.eps = '1e-8':"),
        ({"optimizer": {"args": {"lr": "1e-3x"}}}, "(it is optimizer.args.lr = '1e-3x': without it, it works)"),
        ({"optimizer": {"name": "torch.optim.Adam", "args": {"lr": 10**400}}}, "OverflowError"),
        ({"optimizer": {"args": {"a b": 1}}}, '(it is optimizer.args."a b" = 1:'),
        ({"optimizer": {"name": f"{ODD}.WithoutRate"}}, "WithoutRate: can't be used here: KeyError: 'lr'"),
        ({"optimizer": {"name": f"{ODD}.leave"}}, f"optimizer.args: {ODD}.leave: SystemExit: enough"),
        ({"optimizer": {"name": f"{ODD}.ComplexState"}}, "phase: torch.complex64 has no form in a safetensors file"),
        ({"optimizer": {"name": "torch.optim"}}, "optimizer.name: 'torch.optim' can't be loaded: it is no"),
        (
            {"schedule": {"name": f"{ODD}.EndingSchedule"}},
            f"schedule.name: {ODD}.EndingSchedule: fails after step 7: LookupError: the table has ended; "
            "the run has train.steps = 1000",
        ),
        ({"schedule": {"name": f"{ODD}.EndingSchedule", "every": 100}}, "fails after step 700: LookupError"),
        ({"schedule": one_cycle(600)}, "fails after step 601: ValueError: Tried to step 601 times"),
        ({"schedule": one_cycle(1 << 31), "train": {"steps": (1 << 31) + 1}}, f"fails after step {(1 << 31) + 1}:"),
        (
            {"optimizer": {"args": {"lr": 1}}, "schedule": {"name": STEP_LR, "args": {"step_size": 0}}},
            "StepLR: fails after step 1: ZeroDivisionError",
        ),
    ],
    ids=lambda value: json.dumps(value)[-70:] if isinstance(value, dict) else "",
)
def test_what_cannot_be_used_is_said_before_the_run(tree: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError) as error:
        snapshot_nbytes(config(tree), [plan()])
    assert complaint in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    "tree",
    [
        {"schedule": {"name": f"{ODD}.EndingSchedule"}, "train": {"steps": 6}},
        {"schedule": {"name": f"{ODD}.EndingSchedule", "every": 200}},
        {"schedule": one_cycle(1000)},
        {"schedule": one_cycle(1 << 31), "train": {"steps": 1 << 31}},
        {"schedule": {"name": STEP_LR, "args": {"step_size": 1}}, "train": {"steps": 1 << 32}},
    ],
    ids=json.dumps,
)
def test_a_schedule_that_lasts_as_long_as_the_run_can_be_used(tree: dict[str, Any]) -> None:
    assert snapshot_nbytes(config(tree), [plan()]) > 0


def test_a_limit_that_the_type_of_the_gradients_can_not_hold_is_refused() -> None:
    half = build_plan([TensorSpec("half", (4,), "float16", 2)], [], [1000])
    tree = {"train": {"clip_value": 1e30}, "optimizer": {"name": "torch.optim.SGD"}}
    with pytest.raises(
        ConfigError, match=r"train\.clip_value: 1e\+30: gradients are float16: RuntimeError: value cannot be"
    ):
        snapshot_nbytes(config(tree), [half])
    assert snapshot_nbytes(config(tree), [plan()]) > 0


RANGER = {"optimizer": {"name": "pool.optim.RangerLite"}}
SHOWN = {"steps": 100, "checkpoint_every": 50, "validate_every": 10, "keep_every": 50, "export_every": 50}


def test_weights_are_looked_at_where_lookahead_ends() -> None:
    assert snapshot_nbytes(config({**RANGER, "train": SHOWN}), [plan()]) > 0
    for key in SHOWN:
        with pytest.raises(ConfigError, match=rf"^train\.{key}: 12 is no multiple of 5: pool\.optim\.RangerLite looks"):
            snapshot_nbytes(config({**RANGER, "train": {**SHOWN, key: 12}}), [plan()])
    average = {"kind": "swa", "start": 50, "every": 1}
    with pytest.raises(ConfigError, match=r"^train\.average\.every: 1 is no multiple of 5"):
        snapshot_nbytes(config({**RANGER, "train": {**SHOWN, "average": average}}), [plan()])
    args = {"optimizer": {**RANGER["optimizer"], "args": {"lookahead_steps": 3}}}
    with pytest.raises(ConfigError, match=r"^train\.steps: 100 is no multiple of 3"):
        snapshot_nbytes(config({**args, "train": SHOWN}), [plan()])


def test_weights_are_looked_at_where_an_overridden_lookahead_ends() -> None:
    ranger = config({**RANGER, "train": SHOWN})
    small = shrink_plan(plan())
    tensors, plain = trial._after_one_step(ranger, small)
    header: Any = {name: SimpleNamespace(dtype="F32") for name in tensors}

    def resumed(steps: int) -> None:
        override = Override(50, "optimizer.args.lookahead_steps", steps)
        trial._try_state_of(ranger, small, Path("checkpoint"), lambda: header, plain, [override])

    resumed(1)
    with pytest.raises(ConfigError, match=r"^train\.steps: 100 is no multiple of 3"):
        resumed(3)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("Adam", "torch.optim.Adam or pool.optim.Adam"),
        ("adamw", "torch.optim.AdamW or pool.optim.AdamW"),
        ("SGD", "torch.optim.SGD"),
        ("SparseAdam", "torch.optim.SparseAdam or pool.optim.SparseAdam"),
        ("torch.optim.Adamm", "torch.optim.Adam or pool.optim.Adam"),
        ("torch.optim.adam", None),  # a module
        ("nosuchoptimizer", None),
    ],
)
def test_a_name_without_its_module_is_answered_with_the_dotted_one(name: str, suggestion: str | None) -> None:
    with pytest.raises(ConfigError, match=f"optimizer.name: '{name}' can't be loaded: ") as error:
        snapshot_nbytes(config({"optimizer": {"name": name}}), [plan()])
    if suggestion is not None:
        assert str(error.value).endswith(f"; did you mean {suggestion}?")


def test_every_schedule_of_torch_is_known_by_its_bare_name() -> None:
    for name in ("StepLR", "OneCycleLR", "CosineAnnealingWarmRestarts", "ReduceLROnPlateau"):
        with pytest.raises(ConfigError, match=f"; did you mean torch.optim.lr_scheduler.{name}\\?"):
            snapshot_nbytes(config({"schedule": {"name": name}}), [plan()])


def test_an_error_of_a_class_in_a_later_step_ends_the_run_with_one_line() -> None:
    """It would come again in the coordinator's next life."""
    settings = config({"optimizer": {"name": f"{ODD}.EndingOptimizer"}, "schedule": {"name": f"{ODD}.EndingSchedule"}})
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in SHAPES.values()]
    optimizers = BucketOptimizers(plan(), parameters, settings.optimizer, settings.run_schedule)
    for bucket in range(len(plan().buckets)):
        optimizers.step(bucket)
    optimizers.step(0)
    with pytest.raises(RunError, match=r"optimizer\.name: .*EndingOptimizer: fails: ZeroDivisionError: float division"):
        optimizers.step(0)
    for step in range(6):
        optimizers.end_step(step)
    with pytest.raises(RunError, match=r"schedule\.name: .*EndingSchedule: fails after step 7: LookupError: the table"):
        optimizers.end_step(6)
