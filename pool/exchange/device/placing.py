"""Places the parts of the weights on devices that add up and step them, where several share them out. Pure.

A piece is what one bucket holds of one parameter. Devices get about as many bytes each: the largest piece first, to the
device that has least. So the parts of a table, which are of one size, go to the devices in turn. Which rows batches
touch is not known here. Rows that are touched often may lie side by side; in turn, no device has them all.
"""

from __future__ import annotations

from collections.abc import Sequence

from pool.exchange.plan import Bucket, Plan

Piece = tuple[Bucket, int]  # and the parameter, by index in the plan


def place_pieces(plans: Sequence[Plan], devices: int) -> list[dict[Piece, int]]:
    """`plans`: of each member. Of each member the device of each piece, by index."""
    pieces = [
        (m, bucket, index) for m, plan in enumerate(plans) for bucket in plan.buckets for index in bucket.parameters
    ]
    sizes = [piece_nbytes(plans[m], bucket, index) for m, bucket, index in pieces]
    found: list[dict[Piece, int]] = [{} for _ in plans]
    loads = [0] * devices
    for nbytes, (m, bucket, index) in sorted(zip(sizes, pieces, strict=True), key=lambda each: -each[0]):
        device = loads.index(min(loads))
        found[m][bucket, index] = device
        loads[device] += nbytes
    return found


def piece_nbytes(plan: Plan, bucket: Bucket, index: int) -> int:
    parameter = plan.parameters[index]
    if bucket.rows is None:
        return parameter.nbytes
    first, last = bucket.rows
    return (last - first) * parameter.nbytes // parameter.shape[0]
