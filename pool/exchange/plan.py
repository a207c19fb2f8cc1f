"""Plans where all parameters and buffers lie in a version of the weights. `pool.exchange.layout` plans gradient slots.

The plan is a function of the model, the bucket limits and the optimizer's name, never of devices or workers, since
other borders would give other bits. The planner process makes it once. It is plain data, free of torch, so that the
supervisor can size memory.

    [bucket 0: parameters ...][bucket 1: ...] ... [buffers]      offsets in bytes, multiples of 256
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod

ALIGNMENT = 256  # bytes: the least alignment of torch's allocators, by which kernels choose their paths
PAGE = 4096
ROW_UNIT = 16  # buckets have a multiple of so many rows, so that they don't change where vectorized loops begin and end


@dataclass(frozen=True)
class Tensor:
    """A parameter or buffer in the layout: its name in the model, shape, dtype (numpy's name), and bytes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    offset: int
    nbytes: int
    sparse_field: str | None = None  # the batch's field whose touched features are this table's touched rows


@dataclass(frozen=True)
class Bucket:
    """Parameters whose gradients are announced, reduced and stepped together, or some rows of one large table."""

    parameters: tuple[int, ...]  # indices into Plan.parameters
    offset: int
    nbytes: int
    rows: tuple[int, int] | None = None  # of the only parameter, a table: first row, and the row after the last one


@dataclass(frozen=True)
class Plan:
    """The layout of one version of the weights, or of one gradient slot."""

    parameters: tuple[Tensor, ...]  # the trained parameters, in the model's order
    buffers: tuple[Tensor, ...]
    buckets: tuple[Bucket, ...]
    nbytes: int  # of one version of the weights, or of a gradient slot


@dataclass(frozen=True)
class TensorSpec:
    """A parameter or buffer before it has a place in the layout."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    itemsize: int
    sparse_field: str | None = None

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.itemsize


def make_plan(
    parameters: Sequence[TensorSpec],
    buffers: Sequence[TensorSpec],
    limits: Sequence[int],
    *,
    split_tables: bool = False,
) -> Plan:
    """Returns the layout of a model. Buckets are in the order in which backward finishes them, the reverse of the
    parameters' order.

    `limits`: bytes at which a bucket is closed, as in `assign_buckets`; `split_tables`: a table beyond the last limit
    becomes several buckets of rows, for optimizers that compute each number by itself (pool.optim.elementwise).
    """
    backward = list(range(len(parameters)))[::-1]
    assigned = assign_buckets([parameters[i].nbytes for i in backward], [parameters[i].dtype for i in backward], limits)
    placed: dict[int, Tensor] = {}
    buckets = []
    offset = 0
    for members in assigned:
        indices = tuple(backward[i] for i in members)
        large = [i for i in indices if split_tables and _is_large_table(parameters[i], limits[-1])]
        others = tuple(i for i in indices if i not in large)
        for together in (others, *((i,) for i in large)):
            start = offset
            for index in together:
                placed[index] = _place(parameters[index], offset)
                offset = align(offset + parameters[index].nbytes)
            if together and together[0] in large:
                buckets += _row_buckets(together[0], placed[together[0]], limits[-1])
            elif together:
                buckets.append(Bucket(together, start, offset - start))
    placed_buffers = []
    for spec in buffers:
        placed_buffers.append(_place(spec, offset))
        offset = align(offset + spec.nbytes)
    return Plan(
        parameters=tuple(placed[i] for i in range(len(parameters))),
        buffers=tuple(placed_buffers),
        buckets=tuple(buckets),
        nbytes=max(PAGE, align(offset, PAGE)),
    )


def assign_buckets(sizes: Sequence[int], dtypes: Sequence[Hashable], limits: Sequence[int]) -> list[list[int]]:
    """Assigns parameters to buckets by size and dtype. Returns the buckets as lists of indices into `sizes`, ordered by
    their first index.

    Sizes and limits are bytes. The rule is that of torch's DistributedDataParallel (compute_bucket_assignment_by_size).
    A bucket closes when it reaches the current limit of its dtype. Each dtype goes through the limits in order and
    stays at the last. Raises ValueError if sizes and dtypes differ in number, or there is no limit.
    """
    if len(sizes) != len(dtypes) or not limits:
        raise ValueError(f"{len(sizes)} sizes, {len(dtypes)} dtypes, {len(limits)} limits")
    closed: list[list[int]] = []
    open_buckets: dict[Hashable, tuple[list[int], int]] = {}
    closed_count: dict[Hashable, int] = {}
    for index, (size, dtype) in enumerate(zip(sizes, dtypes, strict=True)):
        bucket, total = open_buckets.pop(dtype, ([], 0))
        bucket.append(index)
        total += size
        count = closed_count.get(dtype, 0)
        if total >= limits[min(count, len(limits) - 1)]:
            closed.append(bucket)
            closed_count[dtype] = count + 1
        else:
            open_buckets[dtype] = (bucket, total)
    closed += [bucket for bucket, _ in open_buckets.values()]
    return sorted(closed, key=lambda bucket: bucket[0])


def _is_large_table(spec: TensorSpec, limit: int) -> bool:
    return spec.sparse_field is not None and spec.nbytes > limit


def _row_buckets(index: int, table: Tensor, limit: int) -> list[Bucket]:
    """Cuts a table into buckets of equal numbers of rows, each of at most `limit` bytes, or ROW_UNIT rows if that is
    more."""
    rows = table.shape[0]
    row_nbytes = table.nbytes // rows
    shares = -(-table.nbytes // limit)
    share = max(ROW_UNIT, rows // shares // ROW_UNIT * ROW_UNIT)
    buckets = []
    for first in range(0, rows, share):
        last = min(first + share, rows)
        place = table.offset + first * row_nbytes
        buckets.append(Bucket((index,), place, (last - first) * row_nbytes, (first, last)))
    return buckets


def _place(spec: TensorSpec, offset: int) -> Tensor:
    return Tensor(spec.name, spec.shape, spec.dtype, offset, spec.nbytes, spec.sparse_field)


def align(offset: int, to: int = ALIGNMENT) -> int:
    """Rounds an offset up to a multiple of `to` bytes."""
    return -(-offset // to) * to
