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

_BFLOAT16_NBYTES = 2


@dataclass(frozen=True)
class MemberLayout:
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
        return join_plans(self.plans)

    @property
    def slot_plans(self) -> tuple[Plan, ...]:
        """Returns, for each member, the plan of its gradients in a gradient slot."""
        return tuple(_build_slot_plan(plan, self.gradient_dtype) for plan in self.plans)

    @property
    def slot_plan(self) -> Plan:
        """Returns the plan of the gradients of all members in a gradient slot."""
        return join_plans(self.slot_plans)

    @property
    def touched_lists(self) -> TouchedLists:
        """Returns the layout of a group's lists of touched rows, which follow the gradients in a slot."""
        return TouchedLists(self.schema, len(self.plans), self.batches_per_group)

    @property
    def member_of(self) -> tuple[int, ...]:
        """Returns the member of each parameter, for the parameters numbered through all members."""
        return tuple(member for member, plan in enumerate(self.plans) for _ in plan.parameters)

    @property
    def member_layouts(self) -> tuple[MemberLayout, ...]:
        """Returns the part of each member."""
        layouts: list[MemberLayout] = []
        offset, slot_offset, first_parameter = 0, 0, 0
        for plan, slot_plan in zip(self.plans, self.slot_plans, strict=True):
            layouts.append(MemberLayout(plan, slot_plan, offset, slot_offset, first_parameter))
            offset += plan.nbytes
            slot_offset += slot_plan.nbytes
            first_parameter += len(plan.parameters)
        return tuple(layouts)


def member_prefix(member: int, members: int) -> str:
    """Returns the prefix of the names of a member's tensors, or nothing if the run has only one member."""
    return "" if members == 1 else f"member.{member}."


def remove_member_prefix(name: str) -> str:
    """Returns a tensor's name without the member's prefix, as the member's own model has it."""
    return re.sub(r"^member\.\d+\.", "", name)


def join_plans(plans: Sequence[Plan]) -> Plan:
    """Joins the members' plans into one, with their tensors and buckets numbered through. Returns the only plan
    unchanged."""
    if len(plans) == 1:
        return plans[0]
    parameters: list[Tensor] = []
    buffers: list[Tensor] = []
    buckets: list[Bucket] = []
    offset = 0
    for plan in plans:
        first_parameter = len(parameters)
        for bucket in plan.buckets:
            indices = tuple(first_parameter + index for index in bucket.parameters)
            buckets.append(replace(bucket, parameters=indices, offset=offset + bucket.offset))
        parameters += [replace(tensor, offset=offset + tensor.offset) for tensor in plan.parameters]
        buffers += [replace(tensor, offset=offset + tensor.offset) for tensor in plan.buffers]
        offset += plan.nbytes
    return Plan(tuple(parameters), tuple(buffers), tuple(buckets), offset)


def list_bucket_members(plans: Sequence[Plan]) -> tuple[int, ...]:
    """Returns the member of each bucket, for the buckets numbered through all members."""
    return tuple(member for member, plan in enumerate(plans) for _ in plan.buckets)


def _build_slot_plan(plan: Plan, dtype: str) -> Plan:
    """Returns the plan of a member's gradients in a slot, rounded to `dtype`. `plan`: the plan of its weights."""
    if dtype == "float32":
        return plan
    narrow = [replace(tensor, dtype=dtype, nbytes=_BFLOAT16_NBYTES * prod(tensor.shape)) for tensor in plan.parameters]
    in_memory_order = (*sorted(narrow, key=_get_offset), *sorted(plan.buffers, key=_get_offset))
    placed: dict[str, Tensor] = {}
    offset = 0
    for tensor in in_memory_order:
        placed[tensor.name] = replace(tensor, offset=offset)
        offset = align(offset + tensor.nbytes)
    parameters = tuple(placed[tensor.name] for tensor in plan.parameters)
    return Plan(
        parameters=parameters,
        buffers=tuple(placed[tensor.name] for tensor in plan.buffers),
        buckets=tuple(_move_bucket(bucket, parameters) for bucket in plan.buckets),
        nbytes=max(PAGE, align(offset, PAGE)),
    )


def _get_offset(tensor: Tensor) -> int:
    return tensor.offset


def _move_bucket(bucket: Bucket, parameters: Sequence[Tensor]) -> Bucket:
    """Returns the bucket with the offset and size that its parameters have in a new layout. `parameters`: all of that
    layout."""
    first, last = parameters[bucket.parameters[0]], parameters[bucket.parameters[-1]]
    if bucket.rows is None:
        begin, end = first.offset, align(last.offset + last.nbytes)
    else:
        row_nbytes = first.nbytes // first.shape[0]
        first_row, end_row = bucket.rows
        begin, end = first.offset + first_row * row_nbytes, first.offset + end_row * row_nbytes
    return replace(bucket, offset=begin, nbytes=end - begin)
