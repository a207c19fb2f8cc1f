"""Optimizer and schedule tried out on small tensors: what does not work is said before a run begins, and how much
memory their state will take is known."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from pool.buckets.plan import Plan, Tensor
from pool.buckets.tensors import torch_dtype
from pool.checkpoint.snapshot import area_nbytes
from pool.config import Config
from pool.errors import CheckpointError, ConfigError
from pool.optimizers import BucketOptimizers

LONGEST = 16  # of a dimension of the small tensors


def state_nbytes(config: Config, plan: Plan) -> int:
    """Bytes of the area that holds weights and optimizer state, for every optimizer whose state grows no faster than
    its parameters. Raises ConfigError if optimizer or schedule can't be used."""
    tensors, plain = _after_one_step(config, plan)
    sizes = [tensor.nbytes for tensor in (*plan.parameters, *plan.buffers)]
    for tensor in plan.parameters:
        small = math.prod(_small(tensor))
        growth = -(-math.prod(tensor.shape) // small) if small else 1
        for name, state in tensors.items():
            if name.rpartition("/")[0] == tensor.name:
                sizes.append(state.nbytes * (growth if state.numel() > 1 or small == 1 else 1))
    names = [*(tensor.name for tensor in (*plan.parameters, *plan.buffers)), *tensors]
    fields = 120  # bytes of the words around a name in the document
    return area_nbytes(sizes, len(json.dumps(plain)) + sum(len(name) + fields for name in names))


def _after_one_step(config: Config, plan: Plan) -> tuple[Mapping[str, torch.Tensor], Mapping[str, Any]]:
    """The state after a step, as it comes back from plain data."""
    keys = f"optimizer.name: {config.optimizer.name}"
    if config.schedule.name is not None:
        keys += f", schedule.name: {config.schedule.name}"
    parameters = [nn.Parameter(torch.zeros(_small(t), dtype=torch_dtype(t.dtype))) for t in plan.parameters]
    optimizers = BucketOptimizers(plan, parameters, config.optimizer, config.schedule)
    try:
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        for bucket in range(len(plan.buckets)):
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


def _small(tensor: Tensor) -> tuple[int, ...]:
    return tuple(min(length, LONGEST) for length in tensor.shape)
