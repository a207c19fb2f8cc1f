"""Parameter groups: tensors that the optimizer steps with arguments of their own (`optimizer.groups`).

The optimizer of every bucket (parameters that are stepped together) has the same parameter groups, even if some are
empty, so that group numbers mean the same everywhere. Group 0 has the tensors that no pattern matches. Every group
stores the learning rate of group 0, so that whatever changes rates acts on all groups alike. A group's own rate is a
share of it, which is applied only during its step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from pool.config.sections import OptimizerConfig
from pool.errors import ConfigError
from pool.exchange.layout import remove_member_prefix
from pool.exchange.plan import Plan
from pool.optim.factory import construct
from pool.optim.names import load_class

SHARE = "lr_share"  # entry of a group: its learning rate as a share of group 0's


@dataclass(frozen=True)
class _Settings:
    """Name and arguments of an optimizer, as `construct` expects them."""

    name: str
    args: Mapping[str, Any]


class Groups:
    """Makes the optimizers of buckets with their parameter groups.

    `own` are the names of the arguments that each of `optimizer.groups` sets.
    """

    def __init__(self, config: OptimizerConfig, plan: Plan) -> None:
        """Loads the optimizer's class and assigns each tensor of the plan to a group.

        Raises ConfigError, with the key, for a class or arguments that can't be used, or a pattern that matches no
        tensor of the plan.
        """
        self._config = config
        self._make = load_class(config.name, "optimizer.name")
        if callable(getattr(self._make, "train", None)) and callable(getattr(self._make, "eval", None)):
            raise ConfigError(
                f"optimizer.name: {config.name}: validates and saves other weights than it steps, by train() and "
                "eval(), which nobody calls here: take another optimizer, with train.average if they are to be averaged"
            )
        self.own = [group.args.keys() for group in config.groups]
        self._group_numbers = _group_numbers(config, [tensor.name for tensor in plan.parameters])
        self._args = [self._check_group(index) for index in range(len(config.groups))]

    def order(self, parameters: Sequence[int]) -> list[int]:
        """Sorts parameter indices of a bucket by group, then by their order in the model.

        This is the order in which the bucket's optimizer gets them. An optimizer that sums over all parameters
        thereby sums in the order of a plain loop.
        """
        return sorted(parameters, key=lambda index: (self._group_numbers[index], index))

    def optimizer(self, parameters: Mapping[int, nn.Parameter]) -> Any:
        """Returns a new optimizer for a bucket. `parameters`: the bucket's parameters by index. Raises ConfigError."""
        if not self._config.groups:
            ordered = [parameters[index] for index in self.order(list(parameters))]
            return construct(self._make, ordered, self._config, "optimizer.args")
        members = [
            {
                "params": [
                    parameters[index] for index in self.order(list(parameters)) if self._group_numbers[index] == g
                ],
                **args,
            }
            for g, args in enumerate(({}, *self._args))
        ]
        return construct(self._make, members, self._config, "optimizer.args")

    def _check_group(self, index: int) -> dict[str, Any]:
        """Returns the arguments of a group as torch takes them, with its learning rate as a share of the optimizer's.

        Raises ConfigError if the optimizer refuses an argument.
        """
        key, own = f"optimizer.groups.{index}.args", self._config.groups[index].args
        example = [nn.Parameter(torch.zeros(1))]
        rest = construct(self._make, example, self._config, "optimizer.args").param_groups[0]
        settings = _Settings(self._config.name, {**self._config.args, **own})
        whole = construct(self._make, example, settings, key).param_groups[0]
        args = {name: whole[name] for name in own if name != "lr"}
        if "lr" not in own:
            return {**args, SHARE: 1.0}
        if not rest["lr"]:
            raise ConfigError(
                f"{key}.lr: is a share of optimizer.args.lr, which is 0: set that above 0, or leave this out"
            )
        return {**args, SHARE: whole["lr"] / rest["lr"]}


@contextlib.contextmanager
def apply_group_rates(optimizer: Any) -> Iterator[None]:
    """Sets each group's own learning rate within the context, and restores the common rate afterwards."""
    rates = [(group, group["lr"]) for group in optimizer.param_groups if group.get(SHARE, 1.0) != 1.0]
    for group, rate in rates:
        group["lr"] = rate * group[SHARE]
    yield
    for group, rate in rates:
        group["lr"] = rate


def _group_numbers(config: OptimizerConfig, names: Sequence[str]) -> list[int]:
    """Returns the group number of each tensor: 1 for the first of `optimizer.groups`, 0 for tensors that match no
    pattern.

    Raises ConfigError for a pattern that matches no tensor, and for a group of which earlier groups take all
    tensors.
    """
    own = [remove_member_prefix(name) for name in names]
    for index, group in enumerate(config.groups):
        for pattern in group.tensors:
            if not any(fnmatchcase(name, pattern) for name in own):
                raise ConfigError(
                    f"optimizer.groups.{index}.tensors: {pattern!r:.80} matches no tensor; there are {', '.join(own)}"
                )
    first = enumerate((group.tensors for group in config.groups), 1)
    patterns = [(number, pattern) for number, tensors in first for pattern in tensors]
    found = [next((number for number, pattern in patterns if fnmatchcase(name, pattern)), 0) for name in own]
    for index, group in enumerate(config.groups):
        if index + 1 not in found:
            raise ConfigError(
                f"optimizer.groups.{index}.tensors: all that {', '.join(group.tensors)} matches is in groups before "
                "it: put it first"
            )
    return found
