"""What a task collects in validations: what can't be used is refused, and the rest arrives in the order of batches."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from pydantic import TypeAdapter

from loader.plugins.error_text import PluginError
from loader.stream.schema import BatchSchema
from pool.coordinator.scheduler.actions import CollectArrays
from pool.coordinator.validation_arrays import ValidationArrays
from pool.ensemble.metric_values import collect_arrays
from pool.errors import ConfigError
from pool.metrics.layout import NOTHING, Measured, create_layout
from pool.metrics.metric import Best, Column
from pool.metrics.validation_pass import ValidationPass
from pool.process.document import from_json, to_json
from pool.task import factory
from tests.support import toy
from tests.support.toy_model import ToyTask

_MEASURED = TypeAdapter(Measured)
SCHEMA = BatchSchema(3, (), ())


class Chain:
    """Depends on the order of the samples."""

    best: Best = "max"

    def __init__(self, **columns: Any) -> None:
        self.columns: Mapping[str, Column] = columns or {"x": Column("int64"), "y": Column("float64", 2)}

    def value(self, arrays: Mapping[str, npt.NDArray[Any]]) -> float:
        total = 0.0
        for x, y in zip(arrays["x"], arrays["y"].sum(axis=1), strict=True):
            total = 0.5 * total + float(x) * float(y)
        return total


def metric(**attributes: Any) -> Any:
    made = Chain()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("metrics", "complaint"),
    [
        ([Chain()], "must be a mapping of names to metrics"),
        ({"AUC": Chain()}, "'AUC': a name is of at most 32 of a-z, 0-9 and _, and not 'loss'"),
        ({"loss": Chain()}, "'loss': a name is"),
        ({f"m{i}": Chain() for i in range(17)}, "17 metrics; at most 16"),
        ({"a": Chain}, "a: the class Chain is given, not an object of it"),
        ({"a": object()}, "a: object.columns is missing: a metric must have it"),
        ({"a": metric(best="up")}, "a: best must be 'min' or 'max', not 'up'"),
        ({"a": metric(value=lambda: 1)}, "a: Chain.value can't be called with (arrays)"),
        ({"a": metric(columns=["x"])}, "a: columns must be a mapping of names to columns"),
        ({"a": Chain(x="float32")}, "a: columns must be a mapping of names to pool.Column"),
        ({"a": Chain(x=Column("float16"))}, "a: x: dtype 'float16'; allowed: bool, uint8, int32, int64, float32, flo"),
        ({"a": Chain(x=Column(width=0))}, "a: x: width 0; allowed: 1 to 4096"),
        ({"a": Chain(), "b": Chain(x=Column())}, "b: x is Column(dtype='float32', width=1), and another metric has it"),
        ({f"m{i}": Chain(**{f"x{i}{j}": Column() for j in range(2)}) for i in range(9)}, "18 arrays; at most 16"),
    ],
)
def test_metrics_that_cant_be_used_are_refused(metrics: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        create_layout(metrics, 3)


def test_a_name_that_is_not_measured_is_refused_with_those_that_are() -> None:
    found = create_layout({"chain": Chain()}, 3)
    assert (found.best("chain"), found.best("loss")) == ("max", "min")
    with pytest.raises(ValueError, match=r"^'auc' is not measured; allowed: loss, chain$"):
        found.best("auc")


def test_what_is_measured_arrives_in_other_processes() -> None:
    found = create_layout({"chain": Chain()}, 3)
    assert from_json(_MEASURED, to_json(found)) == found
    assert NOTHING.nbytes == 0
    assert found.nbytes == 4096


def test_a_task_with_metrics_must_be_able_to_validate(monkeypatch: pytest.MonkeyPatch) -> None:
    class Half(ToyTask):
        def metrics(self, schema: BatchSchema) -> Mapping[str, Any]:  # noqa: ARG002
            return {}

    monkeypatch.setattr(toy, "create_task", lambda model, loss: Half(model, loss))
    with pytest.raises(ConfigError, match=r"Half.validate is missing: a task with metrics must have validate\(model"):
        factory.make_task("tests.support.toy", toy.ModelConfig(), toy.LossConfig())
    plain = ToyTask(toy.ModelConfig(), toy.LossConfig())
    assert factory.task_metrics(plain, SCHEMA) == {}


# --- a worker's part ---

GOOD = {"x": torch.tensor([1, 2, 3]), "y": torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])}


def places(found: Measured) -> dict[str, npt.NDArray[Any]]:
    return found.arrays(np.zeros(found.nbytes, np.uint8))


@pytest.mark.parametrize(
    ("gave", "complaint"),
    [
        (torch.tensor(1.0), "gave tensor(1.): it must be the loss and a mapping of arrays by name"),
        ((1.0, [GOOD]), "it must be the loss and a mapping of arrays by name"),
        ((1.0, {}), "gave the arrays (none); the metrics need x, y"),
        ((1.0, {**GOOD, "z": GOOD["x"]}), "gave the arrays x, y, z; the metrics need x, y"),
        ((1.0, {**GOOD, "x": [1, 2, 3]}), "gave for x list, which is no tensor"),
        ((1.0, {**GOOD, "x": GOOD["x"][:2]}), "gave for x a tensor of shape (2,): it must be (3,)"),
        ((1.0, {**GOOD, "y": GOOD["x"]}), "gave for y a tensor of shape (3,): it must be (3, 2)"),
        (
            (1.0, {**GOOD, "x": GOOD["x"].to_sparse()}),
            "gave for x a tensor of layout torch.sparse_coo: it must be dense",
        ),
        ((1.0, {**GOOD, "x": GOOD["x"] * 1j}), "gave for x numbers that are complex"),
    ],
)
def test_what_validate_must_not_give(gave: object, complaint: str) -> None:
    assert complaint in collect_arrays(gave, places(create_layout({"chain": Chain()}, 3)))


def test_arrays_are_put_together_in_the_order_of_the_batches_whoever_computed_them_and_when() -> None:
    chain = Chain()
    found = create_layout({"chain": chain}, 3)
    memory = {(worker, place): np.zeros(found.nbytes, np.uint8) for worker in (0, 1) for place in (0, 1)}
    collected = ValidationArrays(
        [{"chain": chain}],
        found,
        validation=ValidationPass(9, 3),
        place=lambda worker, batch: memory[worker, batch % 2],
    )
    for validation in (1, 2):  # what the one before has left plays no part
        for batch, worker in ((1, 0), (0, 0), (2, 1)):
            arrays = {name: array * (batch + validation) for name, array in GOOD.items()}
            assert collect_arrays((0.0, arrays), found.arrays(memory[worker, batch % 2])) == ""
            collected.collect(CollectArrays(batch, worker))
        factors = range(validation, validation + 3)
        whole = {name: np.concatenate([array * factor for factor in factors]) for name, array in GOOD.items()}
        (number,) = collected.compute_metrics()
        assert (number.name, number.values) == ("chain", (chain.value(whole),))


def collected_of(chain: Any) -> ValidationArrays:
    """Of one batch, nothing of which is there."""
    nothing = np.zeros(0, np.uint8)
    return ValidationArrays(
        [{"chain": chain}],
        create_layout({"chain": chain}, 3),
        validation=ValidationPass(3, 3),
        place=lambda *_: nothing,
    )


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (lambda arrays: "many", "metric chain: value gave str, which is no number"),  # noqa: ARG005
        (lambda arrays: 10**400, "metric chain: value gave an integer that no float can hold"),  # noqa: ARG005
        (lambda arrays: arrays["x"].sort(), "read-only"),
    ],
)
def test_a_metric_that_gives_no_number_or_changes_what_others_read_is_named(value: Any, complaint: str) -> None:
    chain = metric(value=value)
    collected = collected_of(chain)
    with pytest.raises((PluginError, ValueError), match=complaint):
        collected.compute_metrics()


def test_a_number_that_says_nothing_is_nan() -> None:
    chain = metric(value=lambda arrays: np.float32("nan"))  # noqa: ARG005
    collected = collected_of(chain)
    assert math.isnan(collected.compute_metrics()[0].value)
