"""Members of several models, a batch for them, and their gradients one after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from loader.stream.schema import BatchSchema, DenseField, SparseBatch, SparseField
from loader.stream.slots import allocate_slots, write_batch
from pool.ensemble.member import Member
from pool.nn.batch import TensorBatch
from pool.nn.sparse_linear import SparseLinear
from pool.task.task import Progress, Task
from pool.tasks.clicks.config import LossConfig as ClicksLoss
from pool.tasks.clicks.config import ModelConfig as ClicksModel
from pool.tasks.clicks.task import ClicksTask
from tests.support.toy import LossConfig as ToyLoss
from tests.support.toy import ModelConfig as ToyConfig
from tests.support.toy_model import ToyTask

SAMPLES = 48
FIELDS = {"features": 60, "items": 30}
SCHEMA = BatchSchema(
    SAMPLES,
    (SparseField("features", 60, 6), SparseField("items", 30, 5, values=True)),
    (DenseField("label", "float32"), DenseField("target", "float32"), DenseField("weight", "float32")),
)


def batch_of(number: int = 0) -> TensorBatch:
    random = np.random.default_rng(number)
    rows: dict[str, Any] = {}
    for field in SCHEMA.sparse:
        active = random.integers(0, field.max_active + 1, SAMPLES)
        features = [np.sort(random.choice(field.num_features, count, replace=False)) for count in active]
        numbers = (random.normal(size=active.sum()).astype(np.float32),) if field.values else ()
        rows[field.name] = (np.concatenate([[0], np.cumsum(active)]), np.concatenate(features), *numbers)
    dense = {
        "label": random.integers(0, 2, SAMPLES).astype(np.float32),
        "target": random.normal(size=SAMPLES).astype(np.float32),
        "weight": random.uniform(0, 2, SAMPLES).astype(np.float32),
    }
    (slot,) = allocate_slots(SCHEMA, 1)
    write_batch(SCHEMA, slot, number, rows, dense)
    return TensorBatch.from_numpy(SparseBatch.view(SCHEMA, slot))


class Written(ToyTask):
    """A task that is its model: a sparse layer and what `rest` does."""

    def __init__(self, rest: Callable[[], nn.Module]) -> None:
        self._rest = rest

    def build_model(self) -> nn.Module:
        return Composed(self._rest())

    def loss(self, model: nn.Module, batch: TensorBatch, progress: Progress) -> Tensor:  # noqa: ARG002
        output: Tensor = model(batch)
        return nn.functional.mse_loss(output, batch.dense["target"])


class Composed(nn.Module):
    def __init__(self, rest: nn.Module) -> None:
        super().__init__()
        self.table = SparseLinear(60, 8)
        self.rest = rest

    def forward(self, batch: TensorBatch) -> Tensor:
        out: Tensor = self.rest(self.table(batch.sparse["features"]))
        return out.mean(1)


class TwiceTheSame(nn.Module):
    """Two layers that share a weight, one bias that is not trained, and a layer that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.third.bias.requires_grad = False

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.third(torch.relu(self.second(torch.tanh(self.third(torch.relu(self.first(x)))))))
        return out


def clicks(kind: str, classes: int = 2) -> Task:
    settings = {"kind": kind, "fields": FIELDS, "classes": classes, "rank": 7, "hidden": [8, 4]}
    return ClicksTask(ClicksModel.model_validate(settings), ClicksLoss())


def toy(**settings: Any) -> Task:
    return ToyTask(ToyConfig(num_features=60, hidden=8, **settings), ToyLoss())


def written(*layers: Callable[[], nn.Module]) -> Task:
    return Written(lambda: nn.Sequential(*(layer() for layer in layers)))


TASKS: dict[str, Callable[[], Task]] = {
    "clicks logistic": lambda: clicks("logistic"),
    "clicks factorization": lambda: clicks("factorization"),
    "clicks factorization of three classes": lambda: clicks("factorization", 3),
    "clicks mlp": lambda: clicks("mlp"),
    "clicks dcn": lambda: clicks("dcn"),
    "toy": toy,
    "toy with BatchNorm": lambda: toy(batch_norm=True),
    "toy with a layer that the batch does not use": lambda: toy(unused_every=2),
    "shared parameters": lambda: written(TwiceTheSame),
    "LayerNorm": lambda: written(lambda: nn.Linear(8, 8), lambda: nn.LayerNorm(8), nn.GELU),
}


def members_of(task: Task, count: int = 3) -> list[Member]:
    members = []
    for seed in range(count):
        torch.manual_seed(seed)
        model = task.build_model()
        for parameter in model.parameters():  # some start at zero
            nn.init.normal_(parameter, std=0.3)
        members.append(Member(task, model, seed, None))
    return members


class InTurn:
    """The obvious Execution."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members

    def losses(self, batch: TensorBatch, progress: Progress, frozen: Collection[int] = ()) -> Iterator[Tensor]:
        assert not frozen
        for member in self._members:
            yield member.task.loss(member.model, batch, progress).reshape(1)


class Sink:
    """Keeps a table's gradient: rows that are not touched remain NaN."""

    def __init__(self, gradients: list[Tensor]) -> None:
        self.gradients = gradients

    def start_gradient(self, weight: Tensor) -> tuple[Tensor, Sequence[int]]:
        self.gradients.append(torch.full_like(weight, torch.nan, requires_grad=False))
        return self.gradients[-1], [weight.shape[0]]

    def report_written(self, weight: Tensor, rows: int) -> None:
        pass

    def finish_gradient(self, weight: Tensor, finite: Tensor | bool) -> None:
        assert bool(finite)
        del weight


Gradients = dict[str, list[Tensor]]  # all that arrived, by the parameter's name


@contextmanager
def watched(model: nn.Module, *, sinks: bool) -> Iterator[Gradients]:
    """Collects gradients as the worker does, by hooks and, if wanted, by sinks."""
    found: Gradients = {name: [] for name, _ in model.named_parameters()}
    hooks = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            hooks.append(parameter.register_post_accumulate_grad_hook(_taker(found[name])))  # type: ignore[no-untyped-call]
    for name, module in model.named_modules():
        if isinstance(module, SparseLinear):
            module.gradient_sink = Sink(found[f"{name}.weight"]) if sinks else None
    yield found
    for hook in hooks:
        hook.remove()


def _taker(found: list[Tensor]) -> Callable[[Tensor], None]:
    def take(parameter: Tensor) -> None:
        if parameter.grad is not None:  # that of a table has gone to its sink
            found.append(parameter.grad.clone())
        parameter.grad = None

    return take
