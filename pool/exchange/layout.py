"""Describes the layout of a run in memory: the members' weights and gradients, one member after the other. Free of
torch.

A member is one network of an ensemble. Its part looks as the memory of a run of its own would, so its buckets have the
same borders. Buckets and tensors are numbered through all members. Gradients in a slot may have a narrower type
(`train.gradient_dtype`). Buckets, their borders and all orders are then those of the weights, and only bytes and
offsets differ. Buffers, which travel in slots too, are never rounded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from loader.stream.schema import BatchSchema
from pool.exchange.plan import PAGE, Bucket, Plan, Tensor, align
from pool.exchange.touched_lists import TouchedLists

_ITEM = 2  # bytes of a bfloat16


@dataclass(frozen=True)
class Part:
    """The part of one member: its bytes in a version of the weights and in a gradient slot."""

    plan: Plan  # of its weights, as if it were alone: offsets count from `offset`, parameters from 0
    slot_plan: Plan  # of its gradients, with offsets from `slot_offset`
    offset: int  # bytes
    slot_offset: int  # bytes
    first_parameter: int

    @property
    def bytes(self) -> slice:
        """Returns the bytes of the member in a version of the weights."""
        return slice(self.offset, self.offset + self.plan.nbytes)

    @property
    def slot_bytes(self) -> slice:
        """Returns the bytes of the member in a gradient slot."""
        return slice(self.slot_offset, self.slot_offset + self.slot_plan.nbytes)


@dataclass(frozen=True)
class Layout:
    """The layout of a run: batches in ring slots, weights, gradients, and lists of touched rows."""

    schema: BatchSchema
    plans: tuple[Plan, ...]  # of the weights of each member, whose gradients are float32 before they are rounded
    gradient_dtype: str = "float32"  # train.gradient_dtype
    batches_per_group: int = 1

    @property
    def plan(self) -> Plan:
        """Returns the plan of the weights of all members."""
        return joined(self.plans)

    @property
    def slot_plans(self) -> tuple[Plan, ...]:
        """Returns, for each member, the plan of its gradients in a gradient slot."""
        return tuple(_narrowed(plan, self.gradient_dtype) for plan in self.plans)

    @property
    def slot_plan(self) -> Plan:
        """Returns the plan of the gradients of all members in a gradient slot."""
        return joined(self.slot_plans)

    @property
    def touched_lists(self) -> TouchedLists:
        """Returns the layout of a group's lists of touched rows, which follow the gradients in a slot."""
        return TouchedLists(self.schema, len(self.plans), self.batches_per_group)

    @property
    def member_of(self) -> tuple[int, ...]:
        """Returns the member of each parameter, for the parameters numbered through all members."""
        return tuple(member for member, plan in enumerate(self.plans) for _ in plan.parameters)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Returns the part of each member."""
        parts: list[Part] = []
        offset, slot_offset, parameter = 0, 0, 0
        for plan, slot_plan in zip(self.plans, self.slot_plans, strict=True):
            parts.append(Part(plan, slot_plan, offset, slot_offset, parameter))
            offset += plan.nbytes
            slot_offset += slot_plan.nbytes
            parameter += len(plan.parameters)
        return tuple(parts)


def prefix(member: int, members: int) -> str:
    """Returns the prefix of the names of a member's tensors, or nothing if the run has only one member."""
    return "" if members == 1 else f"member.{member}."


def without_prefix(name: str) -> str:
    """Returns a tensor's name without the member's prefix, as the member's own model has it."""
    return re.sub(r"^member\.\d+\.", "", name)


def joined(plans: Sequence[Plan]) -> Plan:
    """Joins the members' plans into one, with their tensors and buckets numbered through. Returns the only plan
    unchanged."""
    if len(plans) == 1:
        return plans[0]
    parameters: list[Tensor] = []
    buffers: list[Tensor] = []
    buckets: list[Bucket] = []
    offset = 0
    for plan in plans:
        first = len(parameters)
        for bucket in plan.buckets:
            numbers = tuple(first + index for index in bucket.parameters)
            buckets.append(replace(bucket, parameters=numbers, offset=offset + bucket.offset))
        parameters += [replace(tensor, offset=offset + tensor.offset) for tensor in plan.parameters]
        buffers += [replace(tensor, offset=offset + tensor.offset) for tensor in plan.buffers]
        offset += plan.nbytes
    return Plan(tuple(parameters), tuple(buffers), tuple(buckets), offset)


def member_of_bucket(plans: Sequence[Plan]) -> tuple[int, ...]:
    """Returns the member of each bucket, for the buckets numbered through all members."""
    return tuple(member for member, plan in enumerate(plans) for _ in plan.buckets)


def _narrowed(plan: Plan, dtype: str) -> Plan:
    """Returns a plan of the gradients of a member in a slot, rounded to `dtype`. `plan`: the plan of its weights."""
    if dtype == "float32":
        return plan
    narrow = [replace(tensor, dtype=dtype, nbytes=_ITEM * prod(tensor.shape)) for tensor in plan.parameters]
    placed: dict[str, Tensor] = {}
    offset = 0
    for tensor in (*sorted(narrow, key=_offset), *sorted(plan.buffers, key=_offset)):
        placed[tensor.name] = replace(tensor, offset=offset)
        offset = align(offset + tensor.nbytes)
    parameters = tuple(placed[tensor.name] for tensor in plan.parameters)
    return Plan(
        parameters=parameters,
        buffers=tuple(placed[tensor.name] for tensor in plan.buffers),
        buckets=tuple(_moved(bucket, parameters) for bucket in plan.buckets),
        nbytes=max(PAGE, align(offset, PAGE)),
    )


def _offset(tensor: Tensor) -> int:
    return tensor.offset


def _moved(bucket: Bucket, parameters: Sequence[Tensor]) -> Bucket:
    """Returns the bucket with the offset and size that its parameters have in a new layout. `parameters`: all of that
    layout."""
    held = [parameters[index] for index in bucket.parameters]
    offset, end = held[0].offset, align(held[-1].offset + held[-1].nbytes)
    if bucket.rows is not None:
        first, last = bucket.rows
        row = held[0].nbytes // held[0].shape[0]
        offset, end = offset + first * row, offset + last * row
    return replace(bucket, offset=offset, nbytes=end - offset)
