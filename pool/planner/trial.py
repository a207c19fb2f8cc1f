"""Optimizer and schedule tried out on small tensors: what does not work is said before a run begins, and how much
memory their state will take is known."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from pool.buckets.plan import Plan
from pool.buckets.tensors import torch_dtype
from pool.checkpoint.snapshot import area_nbytes
from pool.config import Config
from pool.errors import CheckpointError, ConfigError
from pool.optim.buckets import BucketOptimizers

LONGEST = 16  # of a dimension of the small tensors


def state_nbytes(config: Config, plan: Plan) -> int:
    """Bytes of the area that holds weights and optimizer state, for every optimizer whose state grows no faster than
    its parameters. Raises ConfigError if optimizer or schedule can't be used."""
    small = _small(plan)
    tensors, plain = _after_one_step(config, small)
    sizes = [tensor.nbytes for tensor in (*plan.parameters, *plan.buffers)]
    for tensor, tried in zip(plan.parameters, small.parameters, strict=True):
        numbers = math.prod(tried.shape)
        growth = -(-math.prod(tensor.shape) // numbers) if numbers else 1
        for name, state in tensors.items():
            if name.rpartition("/")[0] == tensor.name:
                sizes.append(state.nbytes * (growth if state.numel() > 1 or numbers == 1 else 1))
    names = [*(tensor.name for tensor in (*plan.parameters, *plan.buffers)), *tensors]
    fields = 120  # bytes of the words around a name in the document
    return area_nbytes(sizes, len(json.dumps(plain)) + sum(len(name) + fields for name in names))


def _after_one_step(config: Config, plan: Plan) -> tuple[Mapping[str, torch.Tensor], Mapping[str, Any]]:
    """The state after a step, as it comes back from plain data."""
    keys = f"optimizer.name: {config.optimizer.name}"
    if config.schedule.name is not None:
        keys += f", schedule.name: {config.schedule.name}"
    parameters = [nn.Parameter(torch.zeros(t.shape, dtype=torch_dtype(t.dtype))) for t in plan.parameters]
    optimizers = BucketOptimizers(plan, parameters, config.optimizer, config.schedule)
    try:
        for bucket, members in enumerate(optimizers.parameters):
            for parameter in members:
                parameter.grad = torch.zeros_like(parameter)
            optimizers.step(bucket)
        optimizers.end_step(config.schedule.every - 1)
        tensors, plain = optimizers.state()
        plain = json.loads(json.dumps(plain))
        BucketOptimizers(plan, parameters, config.optimizer, config.schedule).load_state(tensors, plain)
    except (ConfigError, CheckpointError):
        raise
    except Exception as error:  # a class of the user's choice may raise anything
        raise ConfigError(f"{keys}: can't be used here: {type(error).__name__}: {error}") from None
    return tensors, plain


def _small(plan: Plan) -> Plan:
    """The same parameters and buckets, each dimension short; a table that is several buckets has a row for each."""
    shares = Counter(bucket.parameters[0] for bucket in plan.buckets if bucket.rows is not None)
    parameters = []
    for index, tensor in enumerate(plan.parameters):
        shape = tuple(min(length, LONGEST) for length in tensor.shape)
        parameters.append(replace(tensor, shape=(shares[index], *shape[1:]) if index in shares else shape))
    given: Counter[int] = Counter()  # rows of a table that its buckets so far have
    buckets = []
    for bucket in plan.buckets:
        if bucket.rows is not None:
            row = given[bucket.parameters[0]]
            given[bucket.parameters[0]] += 1
            bucket = replace(bucket, rows=(row, row + 1))
        buckets.append(bucket)
    return replace(plan, parameters=tuple(parameters), buckets=tuple(buckets))
