"""Plans where all parameters and buffers lie in a version of the weights. `pool.exchange.layout` plans gradient slots.

The plan is a function of the model, the bucket limits and the optimizer's name, never of devices or workers, since
other borders would give other bits. The planner process makes it once. It is plain data, free of torch, so that the
supervisor can size memory.

    [bucket 0: parameters ...][bucket 1: ...] ... [buffers]      offsets in bytes, multiples of 256
"""

from __future__ import annotations

from collections import defaultdict
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


def build_plan(
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
    backward_order = list(range(len(parameters)))[::-1]
    assigned = assign_buckets(
        [parameters[i].nbytes for i in backward_order], [parameters[i].dtype for i in backward_order], limits
    )
    placed: dict[int, Tensor] = {}
    buckets: list[Bucket] = []
    offset = 0
    for positions in assigned:
        indices = tuple(backward_order[i] for i in positions)
        large = [i for i in indices if split_tables and _is_large_table(parameters[i], limits[-1])]
        together = tuple(i for i in indices if i not in large)
        begin = offset
        for index in together:
            placed[index] = _place_tensor(parameters[index], offset)
            offset = align(offset + parameters[index].nbytes)
        if together:
            buckets.append(Bucket(together, begin, offset - begin))
        for index in large:
            placed[index] = _place_tensor(parameters[index], offset)
            offset = align(offset + parameters[index].nbytes)
            buckets += _split_table(index, placed[index], limits[-1])
    placed_buffers = []
    for spec in buffers:
        placed_buffers.append(_place_tensor(spec, offset))
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
    buckets: list[list[int]] = []
    open_buckets: dict[Hashable, list[int]] = {}  # by dtype
    open_nbytes: dict[Hashable, int] = defaultdict(int)
    num_closed: dict[Hashable, int] = defaultdict(int)
    for index, (size, dtype) in enumerate(zip(sizes, dtypes, strict=True)):
        open_buckets.setdefault(dtype, []).append(index)
        open_nbytes[dtype] += size
        limit = limits[min(num_closed[dtype], len(limits) - 1)]
        if open_nbytes[dtype] >= limit:
            buckets.append(open_buckets.pop(dtype))
            open_nbytes[dtype] = 0
            num_closed[dtype] += 1
    buckets += open_buckets.values()
    return sorted(buckets, key=lambda bucket: bucket[0])


def _is_large_table(spec: TensorSpec, limit: int) -> bool:
    return spec.sparse_field is not None and spec.nbytes > limit


def _split_table(index: int, table: Tensor, limit: int) -> list[Bucket]:
    """Cuts a table into buckets of equal numbers of rows, each of at most `limit` bytes, or ROW_UNIT rows if that is
    more."""
    num_rows = table.shape[0]
    row_nbytes = table.nbytes // num_rows
    num_buckets = -(-table.nbytes // limit)
    rows_per_bucket = max(ROW_UNIT, num_rows // num_buckets // ROW_UNIT * ROW_UNIT)
    buckets = []
    for first in range(0, num_rows, rows_per_bucket):
        end = min(first + rows_per_bucket, num_rows)
        buckets.append(Bucket((index,), table.offset + first * row_nbytes, (end - first) * row_nbytes, (first, end)))
    return buckets


def _place_tensor(spec: TensorSpec, offset: int) -> Tensor:
    return Tensor(spec.name, spec.shape, spec.dtype, offset, spec.nbytes, spec.sparse_field)


def align(offset: int, alignment: int = ALIGNMENT) -> int:
    """Rounds an offset up to a multiple of `alignment` bytes."""
    return -(-offset // alignment) * alignment
