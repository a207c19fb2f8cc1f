"""Fake quantization: forward computes with numbers that integers can represent, backward as if nothing were rounded.

Numbers are rounded by the rule of the exported file, so that training sees what an engine computes.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pool.kernels.sparse import SparseInput, backend_for
from pool.nn.sparse_linear import SparseLinear
from pool.tasks.chess.cuda.effective_weights import RowRounding, effective_rows
from pool.tasks.chess.quantization import Rounding, RoundingMode

_JUST_BELOW = 3e-5  # of a step: a float32 just below a whole number, by rounding alone, counts as that number
_ROWS = 256  # rows that are rounded at a time on a CPU, which stay in the cache


def fake_round(values: Tensor, rule: Rounding) -> Tensor:
    """Rounds values to those that the integers of the exported file represent. Gradients pass unchanged."""
    out: Tensor = _StraightThrough.apply(values, rule.scale, rule.mode)  # type: ignore[no-untyped-call]
    return out


def fake_floor(values: Tensor, one: float) -> Tensor:
    """Cuts values down to multiples of 1 / `one`, as integer activations are. Gradients pass unchanged."""
    out: Tensor = _StraightThrough.apply(values, one, "down")  # type: ignore[no-untyped-call]
    return out


class RoundedSparseLinear(SparseLinear):
    """A SparseLinear that sums rounded rows, in float32. A virtual feature's row, which export adds to several real
    rows, is added to each of them before that is rounded."""

    def __init__(
        self,
        num_features: int,
        out_features: int,
        *,
        field: str,
        rule: Rounding | None,
        bias_rule: Rounding | None = None,
        bias: bool = True,
        virtual_rows: npt.NDArray[np.int64] | None = None,
        rows_dtype: torch.dtype = torch.float32,
    ) -> None:
        """`rule`, `bias_rule`: how rows and bias are rounded; None for what the file holds as floats. `virtual_rows`
        [num_features]: the row that export adds to each row, -1 for none, and a virtual feature's own number for
        itself; None without virtual features. `rows_dtype`: the dtype that rows are rounded to after that,
        bfloat16 to nearest even. Kernels for CUDA gather rows in this dtype."""
        super().__init__(num_features, out_features, bias, field=field)
        self._dtype = rows_dtype
        self._rule, self._bias_rule = rule, bias_rule
        self._virtual_rows = None if virtual_rows is None else torch.from_numpy(virtual_rows)

    @torch.no_grad()
    def effective_parameters(
        self, weight: Tensor, bias: Tensor | None, sparse: SparseInput
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the table and bias that forward sums. Only the rows that the batch touches are filled, if rows are
        rounded."""
        if weight.dtype == torch.float32 and backend_for(weight) == "cuda":
            rules, added = (_plain(self._rule), _plain(self._bias_rule)), self._virtual_rows_on(weight.device)
            return effective_rows(weight, bias, sparse.touched, added, *rules, self._dtype)
        if bias is not None and self._bias_rule is not None:
            bias = _round_to_grid_(bias.clone(), self._bias_rule.scale, self._bias_rule.mode)
        if self._rule is None and self._dtype == torch.float32:
            return weight, bias
        table = torch.empty_like(weight)
        touched = sparse.touched.to(torch.int64)
        for part in torch.split(touched, _ROWS) if weight.device.type == "cpu" else (touched,):
            rows = self._whole_rows(weight, part)
            if self._rule is not None:
                _round_to_grid_(rows, self._rule.scale, self._rule.mode)
            if self._dtype != torch.float32:
                rows = rows.to(self._dtype).to(weight.dtype)
            table.index_copy_(0, part, rows)
        return table, bias

    def _whole_rows(self, weight: Tensor, features: Tensor) -> Tensor:
        """Returns the rows of these features with what export adds to them. The rows of virtual features are 0, as a
        bag has them besides the real ones."""
        rows = weight.index_select(0, features)
        virtual_rows = self._virtual_rows_on(weight.device)
        if virtual_rows is None:
            return rows
        added = virtual_rows[features]
        share = (added >= 0).to(rows.dtype).where(added != features, -1.0)
        return rows.addcmul_(weight.index_select(0, added.clamp(min=0)), share[:, None])

    def _virtual_rows_on(self, device: torch.device) -> Tensor | None:
        if self._virtual_rows is not None:
            self._virtual_rows = self._virtual_rows.to(device)
        return self._virtual_rows


def _plain(rule: Rounding | None) -> RowRounding:
    return None if rule is None else (rule.scale, rule.mode)


class _StraightThrough(torch.autograd.Function):
    """Rounds in forward, and passes the gradient unchanged in backward (a straight-through estimator)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, scale: float, mode: RoundingMode | Literal["down"]) -> Tensor:
        return _round_to_grid_(values.clone(), scale, mode)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:  # noqa: ARG004
        return grad, None, None


def _round_to_grid_(values: Tensor, scale: float, mode: RoundingMode | Literal["down"]) -> Tensor:
    """Rounds values in place to multiples of 1 / `scale`."""
    values.mul_(scale)
    if mode == "half to even":
        values.round_()
    elif mode == "towards zero":
        values.trunc_()
    elif mode == "down":
        values.add_(_JUST_BELOW).floor_()
    else:
        fraction = values.frac()
        values.trunc_().add_(fraction.abs().ge(0.5).to(values.dtype).mul_(fraction.sign()))
    return values.div_(scale)


@torch.no_grad()
def clip_sum(weight: Tensor, added: Tensor, low: float, high: float) -> None:
    """Changes `weight` in place so that weight + added lies between low and high. `added` has the shape of `weight` or
    broadcasts to it."""
    weight.copy_(torch.clamp(weight, low - added, high - added))
