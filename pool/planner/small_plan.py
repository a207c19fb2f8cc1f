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
    shares = Counter(bucket.parameters[0] for bucket in plan.buckets if bucket.rows is not None)
    parameters = []
    for index, tensor in enumerate(plan.parameters):
        shape = tuple(min(length, MAX_DIMENSION) for length in tensor.shape)
        parameters.append(replace(tensor, shape=(shares[index], *shape[1:]) if index in shares else shape))
    next_rows: Counter[int] = Counter()  # by table: rows that its buckets so far have
    buckets = []
    for bucket in plan.buckets:
        if bucket.rows is not None:
            row = next_rows[bucket.parameters[0]]
            next_rows[bucket.parameters[0]] += 1
            bucket = replace(bucket, rows=(row, row + 1))
        buckets.append(bucket)
    return replace(plan, parameters=tuple(parameters), buckets=tuple(buckets))


def with_buckets(plan: Plan, *buckets: tuple[int, ...]) -> Plan:
    """Returns the plan with other buckets, each given as a tuple of parameter indices.

    Their offsets in memory are all 0, so the plan is for trials only.
    """
    return replace(plan, buckets=tuple(Bucket(parameters, 0, 0) for parameters in buckets))


def zero_parameters(plan: Plan) -> list[nn.Parameter]:
    """Returns parameters with the plan's shapes and dtypes, filled with zeros."""
    return [nn.Parameter(torch.zeros(t.shape, dtype=torch_dtype(t.dtype))) for t in plan.parameters]
