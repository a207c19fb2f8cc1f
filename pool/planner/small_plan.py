"""Plans with the same parameters and buckets as a run's, each dimension short, on which optimizers are tried."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import torch
from torch import nn

from pool.exchange.plan import Bucket, Plan
from pool.exchange.tensors import torch_dtype

LONGEST = 16  # of a dimension


def small_plan(plan: Plan) -> Plan:
    """Shortens each dimension of the parameters; a table that is several buckets gets a row for each."""
    shares = Counter(bucket.parameters[0] for bucket in plan.buckets if bucket.rows is not None)
    parameters = []
    for index, tensor in enumerate(plan.parameters):
        shape = tuple(min(length, LONGEST) for length in tensor.shape)
        parameters.append(replace(tensor, shape=(shares[index], *shape[1:]) if index in shares else shape))
    next_rows: Counter[int] = Counter()  # rows of a table that its buckets so far have
    buckets = []
    for bucket in plan.buckets:
        if bucket.rows is not None:
            row = next_rows[bucket.parameters[0]]
            next_rows[bucket.parameters[0]] += 1
            bucket = replace(bucket, rows=(row, row + 1))
        buckets.append(bucket)
    return replace(plan, parameters=tuple(parameters), buckets=tuple(buckets))


def with_buckets(plan: Plan, *buckets: tuple[int, ...]) -> Plan:
    """Returns the plan with other buckets, each of these parameters; their places in memory are not those of a run."""
    return replace(plan, buckets=tuple(Bucket(parameters, 0, 0) for parameters in buckets))


def zeros(plan: Plan) -> list[nn.Parameter]:
    """Returns the plan's parameters, without numbers."""
    return [nn.Parameter(torch.zeros(t.shape, dtype=torch_dtype(t.dtype))) for t in plan.parameters]
