"""The layout of gradient slots: that of the weights, or a narrower one where gradients are rounded.

Buckets, their borders and the order of everything are those of the weights' layout, so only bytes and places differ.
Buffers, which travel in slots too, are never rounded. Free of torch.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from pool.exchange.plan import PAGE, Bucket, Plan, Tensor, align

_ITEM = 2  # bytes of a bfloat16


def slot_layout(plan: Plan, dtype: str) -> Plan:
    """Places a member's gradients in a slot, of this type (`train.gradient_dtype`). `plan`: of its weights, float32
    where gradients are to be rounded."""
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
        buckets=tuple(_bucket(bucket, parameters) for bucket in plan.buckets),
        nbytes=max(PAGE, align(offset, PAGE)),
    )


def _offset(tensor: Tensor) -> int:
    return tensor.offset


def _bucket(bucket: Bucket, parameters: tuple[Tensor, ...]) -> Bucket:
    held = [parameters[index] for index in bucket.parameters]
    offset, end = held[0].offset, align(held[-1].offset + held[-1].nbytes)
    if bucket.rows is not None:
        first, last = bucket.rows
        row = held[0].nbytes // held[0].shape[0]
        offset, end = offset + first * row, offset + last * row
    return replace(bucket, offset=offset, nbytes=end - offset)
