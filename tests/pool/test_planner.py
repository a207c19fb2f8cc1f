"""What can't be trained is found by the planner: one line that names the key or the tensor, before anything is made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader.files import identify
from pool.config import parse_config
from pool.errors import ConfigError
from pool.planner import planner
from pool.protocol.identity import PLANNER, Peer
from tests.pool.test_values import EXTREME, NUMERIC, bounds
from tests.support.launches import launch
from tests.support.runs import ROOT

ODD = {
    "task": "tests.support.odd_task",
    "data": {"source": "synthetic", "features": "synthetic:10:2", "batch_size": 4},
    "pool": {"devices": ["fake:0"]},
}


def plan(tree: dict[str, Any], files: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The planner's answer."""
    told = launch(Path("/nowhere"), Peer(PLANNER), config=parse_config(tree, "here"), train_files=identify(files))
    answer: dict[str, Any] = json.loads(planner.run(told))
    return answer


@pytest.mark.parametrize("kind", ["good", "half", "buffer without elements"])
def test_a_model_that_can_be_trained_is_planned(kind: str) -> None:
    assert "plan" in plan({**ODD, "model": {"kind": kind}})


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
        ("many", "task: the model has 20000 parameters, and at most 16384 can be trained"),
        ("interrupt", "task: tests.support.odd_task: KeyboardInterrupt: enough ("),
        ("exit", "task: tests.support.odd_task: SystemExit: enough ("),
        ("generator", "task: tests.support.odd_task: GeneratorExit"),
        ("empty", "task: tests.support.odd_task: ValueError"),
        ("lines", "one\\ntwo\\n\\x1b[31mthree"),
        ("group", "task: tests.support.odd_task: ExceptionGroup: both"),
        ("recursion", "task: tests.support.odd_task: RecursionError: too deep"),
    ],
)
def test_a_model_that_can_not_be_trained_is_one_line(kind: str, complaint: str) -> None:
    answer = plan({**ODD, "model": {"kind": kind}})
    assert complaint in answer["error"]
    assert len(answer["error"].splitlines()) == 1
    assert answer["exit_code"] == 2


def test_buckets_that_no_message_can_name_are_refused() -> None:
    tree = {**ODD, "model": {"kind": "large table"}, "pool": {**ODD["pool"], "bucket_mb": 1e-6}}  # type: ignore[dict-item]
    assert plan(tree)["error"].startswith("pool.bucket_mb: 1e-06 makes 20001 buckets of gradients")


TOY = {
    "task": "tests.support.toy",
    "data": {"source": "synthetic", "features": "synthetic:1000:8"},
    "pool": {"devices": ["fake:0"]},
}
NNUE = {
    "task": "nnue",
    "model": {"l1": 16},
    "data": {"train": ["x"]},
    "pool": {"devices": ["fake:0"]},
}
SAMPLE = ROOT / "configs/sample/validation.binpack"


def test_a_file_name_with_a_line_end_is_told_in_one_line() -> None:
    answer = plan({**NNUE, "model": {"l1": 16, "start_from": "/nowhere/a\nb"}}, (SAMPLE,))
    assert answer["error"].startswith("/nowhere/a\\nb: can't be read")


@settings(max_examples=25, deadline=None)
@given(st.data(), st.sampled_from(["nnue", "tests.support.toy"]))
def test_extreme_numbers_that_are_allowed_give_a_plan_or_one_line(data: st.DataObject, task: str) -> None:
    """Limits are those of what comes behind the config: sizes of memory included."""
    keys = [(key, field) for its, key, field in NUMERIC if its == task]
    base, files = (NNUE, (SAMPLE,)) if task == "nnue" else (TOY, ())
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
    assert "plan" in answer or len(answer["error"].splitlines()) == 1
