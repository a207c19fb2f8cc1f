"""Computes a sparse layer that has one column for each output bucket (a stack of layers, chosen by the number of
pieces). Each sample gets half the difference of its two perspectives' sums, in the column of its bucket. Kernels:
bucket_difference.cu. Float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pool.kernels.cuda.compiler import Source
from pool.kernels.cuda.launcher import Extent, run
from pool.kernels.cuda.sparse import INDEX
from pool.kernels.sparse import SparseInput, backend_for
from pool.nn.sparse_linear import SparseLinear
from pool.tasks.chess.cuda.stack_spec import pack_borders

_FILE = Path(__file__).with_suffix(".cu")
MAX_BUCKETS = 64
WriteGradient = Callable[[Tensor], Tensor | None]


def supports(layer: SparseLinear, sparse: SparseInput) -> bool:
    """Returns whether `layer_bucket_difference` can compute this layer with these inputs: on a device with kernels, in
    float32, without bias and without values of features."""
    if torch._C._are_functorch_transforms_active() or layer.bias is not None or sparse.values is not None:
        return False
    has_fitting_weight = layer.weight.dtype == torch.float32 and layer.out_features <= MAX_BUCKETS
    return has_fitting_weight and layer.gradient_sink is None and backend_for(layer.weight) == "cuda"


def layer_bucket_difference(layer: SparseLinear, sparse: SparseInput, borders: Sequence[int]) -> Tensor:
    """Computes half of own minus opponent's sum of the layer's rows, in the column of each sample's bucket. Returns
    [samples]. Samples borders[b] .. borders[b + 1] belong to bucket b. The bags in `sparse` are all own perspectives,
    then all the opponents'."""

    def write(gradient: Tensor) -> Tensor | None:
        return layer.write_compact(sparse, gradient)

    table, _ = layer.effective_parameters(layer.weight, None, sparse)
    return bucket_difference(layer.weight, table, sparse.features, sparse.offsets, borders, write)


def bucket_difference(
    weight: Tensor, table: Tensor, numbers: Tensor, offsets: Tensor, borders: Sequence[int], write: WriteGradient
) -> Tensor:
    """Computes half of own minus opponent's sum of `table`'s rows [rows, buckets], in the column of each sample's
    bucket. Returns [samples]. Samples borders[b] .. borders[b + 1] belong to bucket b. The bags, as in `sum_lists`, are
    all own perspectives, then all the opponents'.

    The derivative is taken as if the table were `weight`. `write` gets the gradient of the sums [bags, buckets]. It
    returns the gradient of the table for autograd, or None if it has stored that elsewhere.
    """
    out: Tensor = _BucketDifference.apply(weight, table, numbers, offsets, tuple(borders), write)  # type: ignore[no-untyped-call]
    return out


def bucket_difference_forward(table: Tensor, numbers: Tensor, offsets: Tensor, borders: Sequence[int]) -> Tensor:
    """Computes the forward pass of `bucket_difference`, for a contiguous table, without autograd."""
    samples = (offsets.shape[0] - 1) // 2
    out = table.new_empty(samples)
    arguments = table, numbers, offsets, pack_borders(borders), out, samples
    run(table.device, _source(borders, numbers), "bucket_difference", Extent(samples, 1), *arguments)
    return out


def bucket_difference_backward(gradient: Tensor, numbers: Tensor, borders: Sequence[int]) -> Tensor:
    """Computes the gradient of the sums, [2 * samples, buckets], from that of the samples. Only the dtype of `numbers`
    is used, as one source serves both directions."""
    samples, buckets = gradient.shape[0], len(borders) - 1
    out = gradient.new_empty(2 * samples, buckets)
    arguments = gradient, pack_borders(borders), out, samples
    source = _source(borders, numbers)
    run(gradient.device, source, "bucket_difference_backward", Extent(out.numel(), 1), *arguments)
    return out


class _BucketDifference(torch.autograd.Function):
    """The autograd function of `bucket_difference`."""

    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,  # noqa: ARG004
        table: Tensor,
        numbers: Tensor,
        offsets: Tensor,
        borders: tuple[int, ...],
        write: WriteGradient,
    ) -> Tensor:
        ctx.borders, ctx.write, ctx.numbers = borders, write, numbers
        return bucket_difference_forward(table.detach().contiguous(), numbers, offsets, borders)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        sums = bucket_difference_backward(gradient.contiguous(), ctx.numbers, ctx.borders)
        return ctx.write(sums) if ctx.needs_input_grad[0] else None, None, None, None, None, None


def _source(borders: Sequence[int], numbers: Tensor) -> Source:
    constants = {"BFLOAT16": 0, "WIDTH": 1, "VALUES": 0, "NARROW": 0, "BUCKETS": len(borders) - 1}
    return Source.of(_FILE, INDEX=INDEX[numbers.dtype], **constants)
