"""Optimizer and learning rate schedule: one instance of each per bucket, so that buckets step one by one.

Any torch.optim-compatible class by dotted name. Its state becomes plain tensors and numbers (I7): tensors are
named `parameter/key`, the rest is JSON.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from pool.buckets.plan import Plan
from pool.config import OptimizerConfig, ScheduleConfig
from pool.errors import CheckpointError, ConfigError


def load_class(name: str, key: str) -> Any:
    """The class of a dotted name. Raises ConfigError naming the config key."""
    module_name, _, class_name = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ConfigError(f"{key}: {name!r} can't be loaded: {error}") from None


class BucketOptimizers:
    def __init__(
        self, plan: Plan, parameters: Sequence[nn.Parameter], optimizer: OptimizerConfig, schedule: ScheduleConfig
    ) -> None:
        self._plan = plan
        self._every = schedule.every
        make = load_class(optimizer.name, "optimizer.name")
        try:
            self._optimizers = [
                make([parameters[i] for i in bucket.parameters], **_tuples(optimizer.args)) for bucket in plan.buckets
            ]
        except (TypeError, ValueError) as error:
            raise ConfigError(f"optimizer.args: {optimizer.name}: {error}") from None
        self._schedulers = []
        if schedule.name is not None:
            make = load_class(schedule.name, "schedule.name")
            try:
                self._schedulers = [make(each, **_tuples(schedule.args)) for each in self._optimizers]
            except (TypeError, ValueError) as error:
                raise ConfigError(f"schedule.args: {schedule.name}: {error}") from None

    @property
    def learning_rate(self) -> float:
        return float(self._optimizers[0].param_groups[0]["lr"])

    def step(self, bucket: int) -> None:
        """Updates the bucket's parameters; those whose grad is None are left alone, as in torch."""
        self._optimizers[bucket].step()

    def end_step(self, step: int) -> None:
        """After all buckets of step `step`: the schedule moves on when it is due."""
        if (step + 1) % self._every == 0:
            for scheduler in self._schedulers:
                scheduler.step()

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Tensors by `parameter/key`, and the rest as plain data."""
        tensors: dict[str, torch.Tensor] = {}
        numbers: dict[str, dict[str, Any]] = {}
        for bucket, optimizer in zip(self._plan.buckets, self._optimizers, strict=True):
            for i, entries in optimizer.state_dict()["state"].items():
                name = self._plan.parameters[bucket.parameters[i]].name
                numbers[name] = {}
                for key, value in entries.items():
                    if isinstance(value, torch.Tensor):
                        tensors[f"{name}/{key}"] = value
                    else:
                        numbers[name][key] = value
        groups = [
            [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
            for optimizer in self._optimizers
        ]
        schedulers = [scheduler.state_dict() for scheduler in self._schedulers]
        return tensors, {"numbers": numbers, "groups": groups, "schedulers": schedulers}

    def load_state(self, tensors: Mapping[str, torch.Tensor], plain: Mapping[str, Any]) -> None:
        """The inverse of `state`. Raises CheckpointError if it does not fit this optimizer."""
        try:
            for i, (bucket, optimizer) in enumerate(zip(self._plan.buckets, self._optimizers, strict=True)):
                state: dict[int, dict[str, Any]] = {}
                for position, index in enumerate(bucket.parameters):
                    name = self._plan.parameters[index].name
                    if name in plain["numbers"]:
                        state[position] = dict(plain["numbers"][name])
                        prefix = f"{name}/"
                        for key, tensor in tensors.items():
                            if key.startswith(prefix):
                                state[position][key.removeprefix(prefix)] = tensor
                groups = [
                    {**_tuples(group), "params": own["params"]}
                    for group, own in zip(plain["groups"][i], optimizer.state_dict()["param_groups"], strict=True)
                ]
                optimizer.load_state_dict({"state": state, "param_groups": groups})
            for scheduler, entry in zip(self._schedulers, plain["schedulers"], strict=True):
                own = scheduler.state_dict()
                scheduler.load_state_dict({key: _like(own.get(key), value) for key, value in entry.items()})
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise CheckpointError(
                f"optimizer state does not fit optimizer and schedule of the config: {error}"
            ) from None


def _like(own: Any, saved: Any) -> Any:
    """A saved value as the scheduler itself holds it: JSON knows no numbers as keys (MultiStepLR's milestones)."""
    if isinstance(own, dict) and isinstance(saved, Mapping):
        types = {type(key) for key in own}
        key_type = types.pop() if len(types) == 1 else str
        return type(own)({key_type(key): value for key, value in saved.items()})
    return saved


def _tuples(args: Mapping[str, Any]) -> dict[str, Any]:
    """TOML and JSON have lists where torch expects tuples (betas)."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in args.items()}
