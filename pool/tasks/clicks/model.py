"""The models of the task `clicks`: a table for each sparse field, and what turns the sums of their rows into scores.

A score is a logit: that of class 1 if there are two classes, else one for each class.

    logistic        bias + sum of w_i x_i
    factorization   the same + |sum of v_i x_i|^2 / 2
    mlp             layers of the fields' sums of v_i x_i and of the dense numbers, side by side
    dcn             the same, behind layers that multiply what they get by these (DCN-V2, Wang et al. 2021, stacked)

The sums are over the features of all fields, whose x_i are 1 or their values, and over the dense numbers, standardised.

`factorization` is the factorization machine of Rendle (2010), for each class, except that the terms |v_i|^2 x_i^2 / 2
are left in. Where values are 0 and 1 these terms are a part of w_i, so that both are the same family of models. This
one needs each row of a table once.
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

_VECTOR_STD = 0.05  # initial standard deviation of vectors: at 0 a product of two would have no gradient
_TABLE_PREFIX = "table_"  # prefix of a table's name, before its field


def count_scores(config: ModelConfig) -> int:
    """Returns the number of scores for each sample: one for two classes, else one for each class."""
    return 1 if config.classes == 2 else config.classes


class Clicks(nn.Module):
    """Holds what all models have: a table for each sparse field, and the standardised dense numbers.

    Scores are [batch_size] for two classes, else [batch_size, classes].
    """

    def __init__(self, config: ModelConfig, width: int) -> None:
        """Creates the tables. `width`: number of values in a row of each table."""
        super().__init__()
        self._names = tuple(config.fields)
        self.num_scores = count_scores(config)
        self.numbers: StandardisedNumbers | None = None
        if config.dense:
            self.numbers = StandardisedNumbers(config.dense, config.dense_log, config.dense_clip)
        for name, rows in config.fields.items():
            self.add_module(f"{_TABLE_PREFIX}{name}", SparseLinear(rows, width, bias=False, field=name))

    def tables(self) -> Iterator[SparseLinear]:
        """Yields the sparse tables in the order of the fields."""
        for name in self._names:
            table = self.get_submodule(f"{_TABLE_PREFIX}{name}")
            assert isinstance(table, SparseLinear)
            yield table

    def sum_rows(self, batch: TensorBatch) -> list[Tensor]:
        """Returns for each field the sums of the samples' rows, [batch_size, width]."""
        return [table(batch.sparse[table.field]) for table in self.tables()]

    def squeeze_scores(self, scores: Tensor) -> Tensor:
        """Drops the last axis of [batch_size, 1] if there are two classes. Leaves [batch_size, classes] as it is."""
        if self.num_scores == 1:
            return scores.squeeze(1)
        return scores


class LinearModel(Clicks):
    """Computes one sum that is linear in features and dense numbers, from which a derived model computes scores."""

    def __init__(self, config: ModelConfig, width: int) -> None:
        super().__init__(config, width)
        self.dense = nn.Linear(len(config.dense), width, bias=False) if config.dense else None

    def sum_fields(self, batch: TensorBatch) -> Tensor:
        """Adds up the rows of all fields and the columns of all dense numbers. Returns [batch_size, width]."""
        first, *more = self.sum_rows(batch)
        total = sum(more, first)
        if self.dense is None or self.numbers is None:
            return total
        dense: Tensor = self.dense(self.numbers(batch))
        return total + dense


class Logistic(LinearModel):
    """Computes logistic regression: the scores are the sum plus a bias."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, count_scores(config))
        if self.dense is not None:
            nn.init.zeros_(self.dense.weight)
        self.bias = nn.Parameter(torch.zeros(self.num_scores))
        for table in self.tables():
            nn.init.zeros_(table.weight)

    def forward(self, batch: TensorBatch) -> Tensor:
        return self.squeeze_scores(self.sum_fields(batch) + self.bias)


class Factorization(LinearModel):
    """Computes a factorization machine.

    A row of a table, and a column of `dense`, holds for each score a weight, then a vector.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, count_scores(config) * (1 + config.rank))
        self.bias = nn.Parameter(torch.zeros(self.num_scores))
        for table in self.tables():
            nn.init.normal_(table.weight, std=_VECTOR_STD)
            with torch.no_grad():
                table.weight.view(table.num_features, self.num_scores, -1)[:, :, 0] = 0.0
        if self.dense is not None:
            nn.init.normal_(self.dense.weight, std=_VECTOR_STD)
            with torch.no_grad():
                self.dense.weight.view(self.num_scores, 1 + config.rank, -1)[:, 0] = 0.0

    def forward(self, batch: TensorBatch) -> Tensor:
        return self.squeeze_scores(pair_scores(self.sum_fields(batch), self.bias))


class MultiLayer(Clicks):
    """Computes the kind `mlp`: linear layers with ReLU over the fields' sums and the dense numbers."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, config.rank)
        for table in self.tables():
            nn.init.normal_(table.weight, std=_VECTOR_STD)
        layers: list[nn.Module] = []
        width = count_inputs(config)
        for hidden in config.hidden:
            layers += [nn.Linear(width, hidden), nn.ReLU()]
            width = hidden
        self.layers = nn.Sequential(*layers, nn.Linear(width, self.num_scores))

    def concat_inputs(self, batch: TensorBatch) -> Tensor:
        """Concatenates the fields' sums and the dense numbers. Returns [batch_size, inputs]."""
        inputs = self.sum_rows(batch)
        if self.numbers is not None:
            inputs.append(self.numbers(batch))
        return torch.cat(inputs, dim=1)

    def forward(self, batch: TensorBatch) -> Tensor:
        return self.squeeze_scores(self.layers(self.concat_inputs(batch)))


def count_inputs(config: ModelConfig) -> int:
    """Returns the number of inputs of the layers of `mlp` and `dcn`."""
    return config.rank * len(config.fields) + len(config.dense or ())


class DeepCross(MultiLayer):
    """Computes the kind `dcn`: cross layers before those of `mlp`.

    With x_0 the inputs, cross layer l computes x_l+1 = x_0 * (W_l x_l + b_l) + x_l, elementwise.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        width = count_inputs(config)
        self.cross = nn.ModuleList(nn.Linear(width, width) for _ in range(config.cross_layers))

    def forward(self, batch: TensorBatch) -> Tensor:
        inputs = crossed = self.concat_inputs(batch)
        for layer in self.cross:
            crossed = inputs * layer(crossed) + crossed
        return self.squeeze_scores(self.layers(crossed))


KINDS = {"logistic": Logistic, "factorization": Factorization, "mlp": MultiLayer, "dcn": DeepCross}


def pair_scores(total: Tensor, bias: Tensor) -> Tensor:
    """Computes the scores of a factorization machine: bias + weight + |vector|^2 / 2. Returns [samples, scores].

    total: [samples, scores * (1 + rank)], for each score the summed weight, then the summed vector; bias: [scores].
    """
    if torch._C._are_functorch_transforms_active():  # functorch does not support custom gradients of this kind
        per_score = _split_scores(total, len(bias))
        return bias + per_score[:, :, 0] + per_score[:, :, 1:].square().sum(dim=2) / 2
    scores: Tensor = _PairScores.apply(total, bias)  # type: ignore[no-untyped-call]
    return scores


def _split_scores(total: Tensor, num_scores: int) -> Tensor:
    """Reshapes the sums to [samples, scores, 1 + rank]."""
    return total.view(total.shape[0], num_scores, -1)


class _PairScores(torch.autograd.Function):
    """Computes `pair_scores` with a gradient of its own. Autograd's gives the same bits, but passes three times as
    often over rows that are no whole cache lines."""

    @staticmethod
    def forward(ctx: Any, total: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(total)
        weights = _split_scores(total, len(bias))[:, :, 0]
        squares = _split_scores(total.square(), len(bias))[:, :, 1:]
        return bias + weights + squares.sum(dim=2) / 2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        (total,) = ctx.saved_tensors
        per_score = _split_scores(total, grad.shape[1]) * grad.unsqueeze(2)
        per_score[:, :, 0] = grad
        return per_score.view_as(total), grad.sum(0)
