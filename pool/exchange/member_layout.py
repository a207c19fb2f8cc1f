"""The layout of several members: the layouts of their own runs, one after the other.

A member's part of a gradient slot, or of a version of the weights, is what the slot of its own run would be, so its
buckets have the same borders. Buckets and tensors of a run are numbered through all members. Free of torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pool.exchange.plan import Plan


def prefix(member: int, members: int) -> str:
    """Returns the beginning of the names of a member's tensors; nothing if there is one member only."""
    return "" if members == 1 else f"member.{member}."


@dataclass(frozen=True)
class Part:
    """The part of one member."""

    plan: Plan  # as if it were alone: offsets from `offset`, numbers from 0
    offset: int  # bytes
    first_parameter: int
    first_bucket: int


def parts(plans: Sequence[Plan]) -> tuple[Part, ...]:
    """`plans`: of each member."""
    found, offset, parameter, bucket = [], 0, 0, 0
    for plan in plans:
        found.append(Part(plan, offset, parameter, bucket))
        offset += plan.nbytes
        parameter += len(plan.parameters)
        bucket += len(plan.buckets)
    return tuple(found)


def joined(plans: Sequence[Plan]) -> Plan:
    """One layout; of one member it is that member's."""
    if len(plans) == 1:
        return plans[0]
    places = parts(plans)
    return Plan(
        parameters=tuple(replace(t, offset=p.offset + t.offset) for p in places for t in p.plan.parameters),
        buffers=tuple(replace(t, offset=p.offset + t.offset) for p in places for t in p.plan.buffers),
        buckets=tuple(
            replace(
                bucket,
                parameters=tuple(p.first_parameter + index for index in bucket.parameters),
                offset=p.offset + bucket.offset,
            )
            for p in places
            for bucket in p.plan.buckets
        ),
        nbytes=sum(plan.nbytes for plan in plans),
    )


def member_of_parameter(plans: Sequence[Plan]) -> tuple[int, ...]:
    """The member of each parameter, by the number that it has among all."""
    return tuple(member for member, plan in enumerate(plans) for _ in plan.parameters)


def member_of_bucket(plans: Sequence[Plan]) -> tuple[int, ...]:
    """The member of each bucket, by the number that it has among all."""
    return tuple(member for member, plan in enumerate(plans) for _ in plan.buckets)
