"""Standardises dense numbers for a model: each gets mean 0 and deviation 1 over the samples that it was trained on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pool.nn.batch import TensorBatch

_RESOLUTION = 2.0**-24  # of the data's float32: a smaller relative deviation counts as none


class StandardisedNumbers(nn.Module):
    """Standardises the dense numbers of a batch to [batch_size, numbers], float32.

    Mean and deviation are in float64, over the first batch of each step so far and the batch at hand. They are
    population variances, merged as in Chan, Golub and LeVeque (1979). Each sample counts once, whatever its weight.
    """

    count: Tensor
    mean: Tensor
    squares: Tensor

    def __init__(self, names: Sequence[str], logarithms: Sequence[str], clip: float) -> None:
        """Creates the module without samples.

        `names`: the dense fields; `logarithms`: those of them that count as sign(x) log(1 + |x|); `clip`: bound of the
        results' absolute values, 0 for none.
        """
        super().__init__()
        self._names = tuple(names)
        self._logarithm_columns = [column for column, name in enumerate(names) if name in logarithms]
        self._clip = clip
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(len(names), dtype=torch.float64))
        self.register_buffer("squares", torch.zeros(len(names), dtype=torch.float64))  # sums of (x - mean) ** 2

    def forward(self, batch: TensorBatch) -> Tensor:
        columns = [batch.dense[name].double() for name in self._names]
        for index in self._logarithm_columns:
            columns[index] = columns[index].sign() * columns[index].abs().log1p()
        table = torch.stack(columns, dim=1)
        if self.training:
            self._add_samples(table)
        standardised = ((table - self.mean) / self.deviation).float()
        if self._clip:
            return standardised.clamp(-self._clip, self._clip)
        return standardised

    @property
    def deviation(self) -> Tensor:
        """Returns the standard deviation of each number, [numbers]; 1 for a number that is always the same."""
        deviation: Tensor = (self.squares / self.count.clamp(min=1)).sqrt()
        return torch.where(deviation > _RESOLUTION * self.mean.abs(), deviation, 1.0)

    @torch.no_grad()
    def _add_samples(self, table: Tensor) -> None:
        """Adds the rows of `table` to count, mean and squares."""
        mean = table.mean(dim=0)
        total = self.count + len(table)
        distance = mean - self.mean
        self.squares += (table - mean).square().sum(dim=0) + distance.square() * self.count * len(table) / total
        self.mean += distance * len(table) / total
        self.count.copy_(total)
