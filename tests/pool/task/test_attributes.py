"""Tensors that a task and its model hold besides the weights: found wherever they hang, moved, compared."""

from __future__ import annotations

import functools
import logging
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from pool.planner import planner
from pool.process.plan_result import Accepted
from pool.task.attributes import (
    Attribute,
    comparable_values,
    compute_digests,
    find_attributes,
    move_to_device,
    select_tensors,
)
from pool.task.factory import ModelTooLargeError, TensorBytesLimit, build_model
from tests.pool.planner.test_planner import plan, refused
from tests.support.tasks.drawing_task import Constants, Criterion, Net, Orthogonal, Plain

MODULE = "tests.support.tasks.drawing_task"
TREE = {
    "task": f"{MODULE}:Plain",
    "data": {"source": "synthetic", "batch_size": 4},
    "pool": {"devices": ["fake:0"]},
}


def held(task: Plain) -> list[Attribute]:
    return find_attributes(task, build_model(task, 1))


class Bound:
    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def used(self) -> torch.Tensor:
        return self.tensor


def test_tensors_are_found_wherever_they_hang() -> None:
    shared = torch.ones(2)

    class Holding(Plain):
        def __init__(self) -> None:
            self.plain = shared
            self.nested = {"a": [torch.zeros(1), (torch.zeros(2),)], 3: SimpleNamespace(inner=torch.zeros(3))}
            self.partial = functools.partial(torch.add, torch.zeros(4), alpha=2)
            self.criterion = nn.CrossEntropyLoss(weight=torch.zeros(5))
            self.method = Bound(torch.zeros(6)).used
            self.log = logging.getLogger("of the task")  # leads to all loggers of the process

        def build_model(self) -> nn.Module:
            captured = torch.zeros(7)
            net = Net(lambda x: x * captured.sum() * self.plain.sum())
            net.again = shared
            return net

    found = select_tensors(held(Holding()))
    assert {each.value.numel() for each in found} == set(range(1, 8))
    paths = [each.path for each in found]
    assert {"task.plain", "task.nested.a[0]", "task.criterion.weight", "model.middle.captured"} <= set(paths)
    for each in found:
        assert each.path.startswith(("task.", "model.")), each


def test_a_tensor_that_has_several_places_is_moved_to_one() -> None:
    class Twice(Plain):
        def __init__(self) -> None:
            self.one = self.other = torch.ones(2)
            self.criterion = nn.BCEWithLogitsLoss(pos_weight=torch.ones(1))

    task = Twice()
    move_to_device(held(task), torch.device("meta"))
    assert task.one is task.other
    assert task.one.is_meta
    assert task.criterion.pos_weight.is_meta  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", [Constants, Criterion, Orthogonal])
def test_the_same_seed_gives_the_same_values_and_another_one_others(kind: type[Plain]) -> None:
    one, other = (find_attributes(task, build_model(task, 5)) for task in (kind(), kind()))
    assert comparable_values(one) == comparable_values(other)
    assert compute_digests(one) == compute_digests(other)
    drawn = comparable_values(find_attributes(kind(), build_model(kind(), 6)))
    assert (drawn == comparable_values(one)) == (kind is not Constants)


def test_a_model_beyond_the_allowance_is_told_before_it_takes_memory() -> None:
    with TensorBytesLimit(1 << 20):
        build_model(Plain(), 1)
        torch.empty(1 << 40, device="meta")
    for make in (torch.empty, torch.zeros, torch.randn):
        with pytest.raises(ModelTooLargeError), TensorBytesLimit(1 << 20):
            make(1 << 20, 1 << 20)


@pytest.mark.parametrize(
    ("task", "complaint"),
    [
        ("Plain", ""),
        ("Criterion", ""),  # a task's own tensors always have numbers
        ("Orthogonal", "so build_model may not read any from a tensor"),
        ("Constants", "so build_model may not read any from a tensor"),
        ("Attribute", "task: model.temperature is a tensor that is neither parameter nor buffer"),
    ],
)
def test_a_large_model_is_planned_without_numbers_or_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, task: str, complaint: str
) -> None:
    monkeypatch.setattr(planner, "MAX_MODEL_NBYTES", 1 << 10)
    answer = plan({**TREE, "task": f"{MODULE}:{task}"})
    if complaint:
        assert complaint in refused(answer).error
    else:
        assert isinstance(answer, Accepted)
        assert answer.planned.on_meta
