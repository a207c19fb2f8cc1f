"""What can't be trained is found by the planner: one line that names the key or the tensor, before anything is made."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader.exit_codes import EXIT_UNAVAILABLE
from loader.files.identity import identify
from pool.config.load import parse_config
from pool.errors import ConfigError
from pool.planner import planner
from pool.process.document import from_json, to_json
from pool.process.plan_result import ANSWER, Accepted, Answer, Refused
from pool.protocol.identity import PLANNER, Peer
from pool.run_folder import access
from tests.pool.config.test_values import EXTREME, NUMERIC, bounds
from tests.support.paths import VALIDATION
from tests.support.run_plans import run_plan

ODD = {
    "task": "tests.support.tasks.odd_task",
    "data": {"source": "synthetic", "synthetic": {"num_features": 10, "max_active": 2}, "batch_size": 4},
    "pool": {"devices": ["fake:0"]},
}


def plan(tree: dict[str, Any], files: tuple[Path, ...] = ()) -> Answer:
    """The planner's answer, as the supervisor reads it."""
    run = run_plan(Path("/nowhere"), config=parse_config(tree, "here"), train_files=identify(files))
    return from_json(ANSWER, to_json(planner.run(run.planner_start(Peer(PLANNER)))))


def refused(answer: Answer) -> Refused:
    assert isinstance(answer, Refused)
    assert len(answer.error.splitlines()) == 1
    return answer


@pytest.mark.parametrize(
    "kind",
    ["good", "half", "buffer without elements", "tied", "columns", "hooked", "table of a parametrization"],
)
def test_a_model_that_can_be_trained_is_planned(kind: str) -> None:
    optimizer = {"name": f"{'torch' if kind == 'half' else 'pool'}.optim.Adam"}
    assert isinstance(plan({**ODD, "model": {"kind": kind}, "optimizer": optimizer}), Accepted)


def test_a_model_that_the_default_optimizer_can_not_step_is_refused_with_others_that_can() -> None:
    error = refused(plan({**ODD, "model": {"kind": "half"}})).error
    assert "pool.optim.Adam" in error
    assert error.endswith("those of torch.optim take others")


def test_a_card_that_torch_can_not_use_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "_cuda_count", lambda: 0)
    monkeypatch.setattr(planner, "count_installed_cards", lambda: 2)
    monkeypatch.setattr(planner, "explain_unusable_cards", lambda *_: "because")
    auto, chosen = ({**ODD, "model": {"kind": "good"}, "pool": {"devices": [device]}} for device in ("auto", "cpu"))
    error = refused(plan(auto))
    assert error.exit_code == EXIT_UNAVAILABLE
    assert error.error.startswith("pool.devices=auto: this machine has NVIDIA's driver")
    assert error.error.endswith('because; to train on the CPU, say so: pool.devices = ["cpu", "cpu"]')
    assert about(chosen) == ["NVIDIA cards in this machine: 2; torch shows none of them: because"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # hides the cards on purpose
    assert about(auto)[1:] == [
        "NVIDIA cards in this machine: 2; torch shows none of them, CUDA_VISIBLE_DEVICES is empty, which hides all"
    ]


def about(tree: dict[str, Any]) -> list[str]:
    answer = plan(tree)
    assert isinstance(answer, Accepted)
    return list(answer.planned.about_devices)


def test_only_gradients_of_float32_are_rounded() -> None:
    rounded = {**ODD, "train": {"gradient_dtype": "bfloat16"}}
    assert isinstance(plan({**rounded, "model": {"kind": "good"}}), Accepted)
    error = refused(plan({**rounded, "model": {"kind": "half"}})).error
    assert "train.gradient_dtype: bfloat16: parameter " in error
    assert "make it float32, or set float32" in error


TOY_TREE = {
    "task": "tests.support.toy",
    "data": {"source": "synthetic", "batch_size": 4},
    "pool": {"devices": ["fake:0"], "bucket_mb": 0.01, "first_bucket_mb": 1e-6},
    "optimizer": {"name": "pool.optim.Adam"},
}


def test_members_are_planned_as_their_own_runs_one_after_the_other() -> None:
    own = [{}, {"optimizer": {"name": "torch.optim.Adafactor"}}]
    both = plan({**TOY_TREE, "ensemble": {"member": own}})
    assert isinstance(both, Accepted)
    alone = [plan({**TOY_TREE, **member}) for member in own]
    for m, (together, single) in enumerate(zip(both.planned.plans, alone, strict=True)):
        assert isinstance(single, Accepted)
        (expected,) = single.planned.plans
        assert together.buckets == expected.buckets
        for found, tensor in zip(together.parameters, expected.parameters, strict=True):
            assert found == replace(tensor, name=f"member.{m}.{tensor.name}")
    assert len(both.planned.plans[0].buckets) > len(both.planned.plans[1].buckets), "only ours cuts tables"
    assert both.planned.plan.nbytes == sum(each.nbytes for each in both.planned.plans)


@pytest.mark.parametrize(
    ("member", "complaint"),
    [
        (
            {"model": {"hidden": 8}},
            "ensemble.member.1: table.weight, float32 1000 x 8 here, table.weight, float32 1000 x 16 in member 0; "
            "members have the same tensors",
        ),
        ({"model": {"batch_norm": True}}, "ensemble.member.1: norm.weight, float32 16 here, extra.weight, "),
        ({"optimizer": {"name": "torch.optim.Adan"}}, "ensemble.member.1: optimizer.name: 'torch.optim.Adan' can't be"),
        ({"optimizer": {"args": {"lr": "a"}}}, "ensemble.member.1: optimizer.args"),
        (
            {"schedule": {"plateau": {"patience": 1, "metric": "auc"}}},
            "ensemble.member.1: schedule.plateau.metric: 'auc' is not measured",
        ),
    ],
)
def test_members_that_do_not_go_together_are_refused(member: dict[str, Any], complaint: str) -> None:
    assert refused(plan({**TOY_TREE, "ensemble": {"member": [{}, member]}})).error.startswith(complaint)


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("none", "task: build_model must return a torch.nn.Module, and returned NoneType"),
        ("a class", "task: build_model must return a torch.nn.Module, and returned type"),
        ("without parameters", "task: there is nothing to train: no parameter of the model has requires_grad"),
        ("frozen", "task: there is nothing to train"),
        ("without elements", "task: parameter 1 has no elements, its shape is (3, 0)"),
        ("complex", "task: second is torch.complex64, which a checkpoint can't hold; allowed: float64, float32"),
        ("buffer of complex", "task: extra is torch.complex128, which a checkpoint can't hold"),
        ("buffer of float8", "task: extra is torch.float8_e4m3fn, which a checkpoint can't hold"),
        ("lazy", "task: parameter weight has no shape before the first batch (a lazy module)"),
        ("unknown field", "task: layer 0: the data have no sparse field 'colour'; there are features"),
        (
            "tied by data",
            "task: one.weight and other.weight lie in the same memory, and in a run they would be two",
        ),
        ("tied and transposed", "task: one.weight and other.weight lie in the same memory"),
        ("tied in part", "task: one.weight and other.bias lie in the same memory"),
        ("a buffer of a weight", "task: one.weight and row lie in the same memory"),
        ("a view of a weight", "they would be two: make the view in forward, or a clone()"),
        ("hooked table", "task: parameter table.weight has a hook for its gradient"),
        ("later hooked table", "task: parameter table.weight has a hook for its gradient"),
        ("many", "task: the model has 20000 parameters, and at most 16384 can be trained"),
        ("interrupt", "task: tests.support.tasks.odd_task: KeyboardInterrupt: enough ("),
        ("exit", "task: tests.support.tasks.odd_task: SystemExit: enough ("),
        ("generator", "task: tests.support.tasks.odd_task: GeneratorExit"),
        ("empty", "task: tests.support.tasks.odd_task: ValueError"),
        ("lines", "one\\ntwo\\n\\x1b[31mthree"),
        ("group", "task: tests.support.tasks.odd_task: ExceptionGroup: both"),
        ("recursion", "task: tests.support.tasks.odd_task: RecursionError: too deep"),
    ],
)
def test_a_model_that_can_not_be_trained_is_one_line(kind: str, complaint: str) -> None:
    answer = refused(plan({**ODD, "model": {"kind": kind}}))
    assert complaint in answer.error
    assert answer.exit_code == 2


def test_buckets_that_no_message_can_name_are_refused() -> None:
    tree = {**ODD, "model": {"kind": "large table"}, "pool": {**ODD["pool"], "bucket_mb": 1e-6}}  # type: ignore[dict-item]
    assert refused(plan(tree)).error.startswith("pool.bucket_mb: 1e-06 makes 20001 buckets of gradients")


TOY = {
    "task": "tests.support.toy",
    "data": {"source": "synthetic", "synthetic": {"num_features": 1000, "max_active": 8}},
    "pool": {"devices": ["fake:0"]},
}
NNUE = {
    "task": "stockfish",
    "model": {"l1": 16},
    "data": {"train": ["x"]},
    "pool": {"devices": ["fake:0"]},
}


def test_a_file_name_with_a_line_end_is_told_in_one_line() -> None:
    answer = refused(plan({**NNUE, "model": {"l1": 16, "start_from": "/nowhere/a\nb"}}, (VALIDATION,)))
    assert answer.error.startswith("/nowhere/a\\nb: can't be read")


@settings(max_examples=25, deadline=None)
@given(st.data(), st.sampled_from(["stockfish", "tests.support.toy"]))
def test_extreme_numbers_that_are_allowed_give_a_plan_or_one_line(data: st.DataObject, task: str) -> None:
    """Limits are those of what comes behind the config: sizes of memory included."""
    keys = [(key, field) for its, key, field in NUMERIC if its == task]
    base, files = (NNUE, (VALIDATION,)) if task == "stockfish" else (TOY, ())
    tree: dict[str, Any] = json.loads(json.dumps(base))
    for key, field in data.draw(st.lists(st.sampled_from(keys), min_size=1, max_size=3)):
        low, high = bounds(field)
        allowed = [number for number in EXTREME if low <= number <= high]  # type: ignore[operator]
        section, name = key.rsplit(".", 1)
        place = tree
        for part in section.split("."):
            place = place.setdefault(part, {})
        place[name] = data.draw(st.sampled_from([*allowed, low, high]), label=key)
    try:
        answer = plan(tree, files)
    except ConfigError:  # two keys that don't fit one another
        return
    assert isinstance(answer, Accepted) or refused(answer)


def test_an_error_about_a_checkpoint_names_the_folder_and_no_descriptor(tmp_path: Path) -> None:
    """The supervisor's descriptors have other numbers."""
    fd = access.open_folder(tmp_path / "run")
    try:
        inside = access.descriptor_path(fd)
        checkpoint = inside / "checkpoints" / "step-000000001"
        answer = refused(planner.run(run_plan(inside, checkpoint=checkpoint).planner_start(Peer(PLANNER))))
    finally:
        os.close(fd)
    assert answer.error == f"{tmp_path}/run/checkpoints/step-000000001/state.json: No such file or directory"
