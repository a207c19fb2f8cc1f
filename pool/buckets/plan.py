"""Where every parameter and buffer lies: one layout for gradient slots and for versions of the weights.

A function of the model and the bucket limits alone, never of devices or workers: other borders would give
other bits. Made once, by the planner; plain data, free of torch, so that the supervisor can size memory.

    [bucket 0: parameters ...][bucket 1: ...] ... [buffers]      offsets in bytes, multiples of 256
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from pool.buckets.assign import assign_buckets

ALIGNMENT = 256  # bytes; what torch's allocators give at least, and kernels choose paths by it
PAGE = 4096


@dataclass(frozen=True)
class Tensor:
    """A parameter or buffer: name in the model, shape, dtype (numpy name), place in the layout."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    offset: int
    nbytes: int
    sparse_field: str | None = None  # the batch's field whose touched features are this table's touched rows


@dataclass(frozen=True)
class Bucket:
    """Parameters whose gradients are announced, reduced and stepped together."""

    parameters: tuple[int, ...]  # indices into Plan.parameters
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Plan:
    parameters: tuple[Tensor, ...]  # in the model's order
    buffers: tuple[Tensor, ...]
    buckets: tuple[Bucket, ...]
    nbytes: int  # of a gradient slot, and of one version of the weights

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `from_dict` is its inverse."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        def tensors(entries: Any) -> tuple[Tensor, ...]:
            return tuple(Tensor(**{**entry, "shape": tuple(entry["shape"])}) for entry in entries)

        return cls(
            parameters=tensors(data["parameters"]),
            buffers=tensors(data["buffers"]),
            buckets=tuple(Bucket(tuple(b["parameters"]), b["offset"], b["nbytes"]) for b in data["buckets"]),
            nbytes=data["nbytes"],
        )


@dataclass(frozen=True)
class TensorSpec:
    """What the layout has to know of a parameter or buffer."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    itemsize: int
    sparse_field: str | None = None

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.itemsize


def make_plan(parameters: Sequence[TensorSpec], buffers: Sequence[TensorSpec], limits: Sequence[int]) -> Plan:
    """Lays out buckets in the order in which backward finishes them: the reverse of the parameters' order."""
    backward = list(range(len(parameters)))[::-1]
    assigned = assign_buckets([parameters[i].nbytes for i in backward], [parameters[i].dtype for i in backward], limits)
    placed: dict[int, Tensor] = {}
    buckets = []
    offset = 0
    for members in assigned:
        indices = tuple(backward[i] for i in members)
        start = offset
        for index in indices:
            placed[index] = _place(parameters[index], offset)
            offset = _align(offset + parameters[index].nbytes)
        buckets.append(Bucket(indices, start, offset - start))
    placed_buffers = []
    for spec in buffers:
        placed_buffers.append(_place(spec, offset))
        offset = _align(offset + spec.nbytes)
    return Plan(
        parameters=tuple(placed[i] for i in range(len(parameters))),
        buffers=tuple(placed_buffers),
        buckets=tuple(buckets),
        nbytes=max(PAGE, _align(offset, PAGE)),
    )


def _place(spec: TensorSpec, offset: int) -> Tensor:
    return Tensor(spec.name, spec.shape, spec.dtype, offset, spec.nbytes, spec.sparse_field)


def _align(offset: int, to: int = ALIGNMENT) -> int:
    return -(-offset // to) * to
