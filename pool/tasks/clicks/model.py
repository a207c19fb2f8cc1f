"""The models of the task `clicks`: a table for each sparse field, and what makes scores of the sums of their rows.

A score is a logit: that of class 1 if there are two classes, else one for each class.

    logistic        bias + sum of w_i x_i
    factorization   the same + |sum of v_i x_i|^2 / 2
    mlp             layers of the fields' sums of v_i x_i and of the dense numbers, side by side
    dcn             the same, behind layers that multiply what they get by these (DCN-V2, Wang et al. 2021, stacked)

The sums are over the features of all fields, whose x_i are 1 or their values, and over the dense numbers, standardised.

The second one is the factorization machine of Rendle (2010), for each class, but for the terms |v_i|^2 x_i^2 / 2 that
are left in. Where values are 0 and 1 those are a part of w_i: both are the same family of models, and this one needs
each row of a table once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pool.nn.batch import TensorBatch
from pool.nn.sparse_linear import SparseLinear
from pool.tasks.clicks.config import ModelConfig
from pool.tasks.clicks.standardization import StandardisedNumbers

_VECTORS = 0.05  # standard deviation of vectors at the start: at 0 a product of two has no gradient
_TABLE = "table_"  # before a field's name


def num_scores(config: ModelConfig) -> int:
    return 1 if config.classes == 2 else config.classes


class Clicks(nn.Module):
    """`scores` are [batch_size] for two classes, else [batch_size, classes]."""

    def __init__(self, config: ModelConfig, width: int) -> None:
        """`width`: numbers in a row of each table."""
        super().__init__()
        self._names = tuple(config.fields)
        self.num_scores = num_scores(config)
        self.numbers = (
            StandardisedNumbers(dense, config.dense_log, config.dense_clip) if (dense := config.dense) else None
        )
        for name, rows in config.fields.items():
            self.add_module(f"{_TABLE}{name}", SparseLinear(rows, width, bias=False, field=name))

    def tables(self) -> Iterator[SparseLinear]:
        """Yields the tables in the order of the fields."""
        for name in self._names:
            table = self.get_submodule(f"{_TABLE}{name}")
            assert isinstance(table, SparseLinear)
            yield table

    def sums(self, batch: TensorBatch) -> list[Tensor]:
        """Returns the sum of each field's rows, [batch_size, width]."""
        return [table(batch.sparse[table.field]) for table in self.tables()]

    def scores(self, scores: Tensor) -> Tensor:
        return scores.squeeze(1) if self.num_scores == 1 else scores


class Linear(Clicks):
    """A model whose scores come from a sum that is linear in features and numbers."""

    def __init__(self, config: ModelConfig, width: int) -> None:
        super().__init__(config, width)
        self.dense = nn.Linear(len(config.dense), width, bias=False) if config.dense else None

    def total(self, batch: TensorBatch) -> Tensor:
        """Returns the sum of all fields' rows and all numbers, [batch_size, width]."""
        first, *others = self.sums(batch)
        total = sum(others, first)
        return total if self.dense is None or self.numbers is None else total + self.dense(self.numbers(batch))


class Logistic(Linear):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, num_scores(config))
        if self.dense is not None:
            nn.init.zeros_(self.dense.weight)
        self.bias = nn.Parameter(torch.zeros(self.num_scores))
        for table in self.tables():
            nn.init.zeros_(table.weight)

    def forward(self, batch: TensorBatch) -> Tensor:
        return self.scores(self.total(batch) + self.bias)


class Factorization(Linear):
    """In a row of a table, and a column of `dense`: for each score a weight, then a vector."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, num_scores(config) * (1 + config.rank))
        self.bias = nn.Parameter(torch.zeros(self.num_scores))
        for table in self.tables():
            nn.init.normal_(table.weight, std=_VECTORS)
            with torch.no_grad():
                table.weight.view(table.num_features, self.num_scores, -1)[:, :, 0] = 0.0
        if self.dense is not None:
            nn.init.normal_(self.dense.weight, std=_VECTORS)
            with torch.no_grad():
                self.dense.weight.view(self.num_scores, 1 + config.rank, -1)[:, 0] = 0.0

    def forward(self, batch: TensorBatch) -> Tensor:
        return self.scores(pair_scores(self.total(batch), self.bias))


class MultiLayer(Clicks):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, config.rank)
        for table in self.tables():
            nn.init.normal_(table.weight, std=_VECTORS)
        layers: list[nn.Module] = []
        width = num_inputs(config)
        for hidden in config.hidden:
            layers += [nn.Linear(width, hidden), nn.ReLU()]
            width = hidden
        self.layers = nn.Sequential(*layers, nn.Linear(width, self.num_scores))

    def inputs(self, batch: TensorBatch) -> Tensor:
        """Returns the fields' sums and the numbers side by side, [batch_size, num_inputs]."""
        return torch.cat([*self.sums(batch), *([] if self.numbers is None else [self.numbers(batch)])], dim=1)

    def forward(self, batch: TensorBatch) -> Tensor:
        return self.scores(self.layers(self.inputs(batch)))


def num_inputs(config: ModelConfig) -> int:
    """Returns the numbers of a sample that the layers of `mlp` and `dcn` get."""
    return config.rank * len(config.fields) + len(config.dense or ())


class DeepCross(MultiLayer):
    """With x_0 the inputs, layer l gives x_l+1 = x_0 * (W_l x_l + b_l) + x_l, elementwise."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        width = num_inputs(config)
        self.cross = nn.ModuleList(nn.Linear(width, width) for _ in range(config.cross_layers))

    def forward(self, batch: TensorBatch) -> Tensor:
        inputs = crossed = self.inputs(batch)
        for layer in self.cross:
            crossed = inputs * layer(crossed) + crossed
        return self.scores(self.layers(crossed))


KINDS = {"logistic": Logistic, "factorization": Factorization, "mlp": MultiLayer, "dcn": DeepCross}


def pair_scores(total: Tensor, bias: Tensor) -> Tensor:
    """Returns the scores of a factorization machine, [samples, scores]: bias + weight + |vector|^2 / 2.

    total: [samples, scores * (1 + rank)], for each score the summed weight, then the summed vector; bias: [scores].
    """
    if torch._C._are_functorch_transforms_active():  # they know no gradient that is written down
        parts = _parts(total, len(bias))
        return bias + parts[:, :, 0] + parts[:, :, 1:].square().sum(dim=2) / 2
    scores: Tensor = _PairScores.apply(total, bias)  # type: ignore[no-untyped-call]
    return scores


def _parts(total: Tensor, num_scores: int) -> Tensor:
    return total.view(total.shape[0], num_scores, -1)


class _PairScores(torch.autograd.Function):
    """The gradient is written down: autograd's has three times as many passes over rows that are no whole cache lines,
    and the same bits."""

    @staticmethod
    def forward(ctx: Any, total: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(total)
        weights = _parts(total, len(bias))[:, :, 0]
        squares = _parts(total.square(), len(bias))[:, :, 1:]
        return bias + weights + squares.sum(dim=2) / 2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        (total,) = ctx.saved_tensors
        parts = _parts(total, grad.shape[1]) * grad.unsqueeze(2)
        parts[:, :, 0] = grad
        return parts.view_as(total), grad.sum(0)
