"""Plans with the parameters and buckets of a run but with short dimensions, on which optimizers are tried."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import torch
from torch import nn

from pool.exchange.plan import Bucket, Plan
from pool.exchange.tensors import torch_dtype

MAX_DIMENSION = 16  # longest dimension


def shrink_plan(plan: Plan) -> Plan:
    """Returns a plan with each dimension of the parameters shortened to 16 at most.

    A table that is cut into several buckets gets one row for each of them.
    """
    buckets_of_table = Counter(bucket.parameters[0] for bucket in plan.buckets if bucket.rows is not None)
    parameters = []
    for index, tensor in enumerate(plan.parameters):
        shape = tuple(min(length, MAX_DIMENSION) for length in tensor.shape)
        if index in buckets_of_table:
            shape = (buckets_of_table[index], *shape[1:])
        parameters.append(replace(tensor, shape=shape))
    next_row_of_table: Counter[int] = Counter()
    buckets = []
    for bucket in plan.buckets:
        if bucket.rows is None:
            buckets.append(bucket)
            continue
        table = bucket.parameters[0]
        row = next_row_of_table[table]
        next_row_of_table[table] += 1
        buckets.append(replace(bucket, rows=(row, row + 1)))
    return replace(plan, parameters=tuple(parameters), buckets=tuple(buckets))


def with_buckets(plan: Plan, *buckets: tuple[int, ...]) -> Plan:
    """Returns the plan with other buckets, each given as a tuple of parameter indices.

    Their offsets in memory are all 0, so the plan is for trials only.
    """
    return replace(plan, buckets=tuple(Bucket(parameters, 0, 0) for parameters in buckets))


def zero_parameters(plan: Plan) -> list[nn.Parameter]:
    """Returns parameters with the plan's shapes and dtypes, filled with zeros."""
    return [nn.Parameter(torch.zeros(t.shape, dtype=torch_dtype(t.dtype))) for t in plan.parameters]
