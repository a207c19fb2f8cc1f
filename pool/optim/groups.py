"""The groups of tensors that an optimizer steps with other arguments (`optimizer.groups`).

Every bucket's optimizer has the same groups, the rest first, though some be empty: their numbers are those of all
buckets. Each holds the learning rate of the rest, so that whatever changes rates acts on all of them alike; the share
of it that a group has is applied while it is stepped.
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
from pool.exchange.layout import without_prefix
from pool.exchange.plan import Plan
from pool.optim.factory import construct
from pool.optim.names import load_class

SHARE = "lr_share"  # of a group, of the rest's learning rate


@dataclass(frozen=True)
class _Settings:
    name: str
    args: Mapping[str, Any]


class Groups:
    """Makes the optimizer of each bucket. `own`: the arguments that each group sets."""

    def __init__(self, config: OptimizerConfig, plan: Plan) -> None:
        """Raises ConfigError that names the key: for a class that can't be used, or a pattern that matches no tensor of
        the plan."""
        self._config = config
        self._make = load_class(config.name, "optimizer.name")
        if callable(getattr(self._make, "train", None)) and callable(getattr(self._make, "eval", None)):
            raise ConfigError(
                f"optimizer.name: {config.name}: validates and saves other weights than it steps, by train() and "
                "eval(), which nobody calls here: take another optimizer, with train.average if they are to be averaged"
            )
        self.own = [group.args.keys() for group in config.groups]
        self._group_of = _group_of(config, [tensor.name for tensor in plan.parameters])
        self._args = [self._checked(index) for index in range(len(config.groups))]

    def order(self, parameters: Sequence[int]) -> list[int]:
        """Returns numbers of parameters in the order in which their bucket's optimizer has them: by group, then as the
        model has them, so that an optimizer of all parameters adds up in the order of a plain loop."""
        return sorted(parameters, key=lambda index: (self._group_of[index], index))

    def optimizer(self, parameters: Mapping[int, nn.Parameter]) -> Any:
        """Returns that of a bucket; `parameters`: by number. Raises ConfigError."""
        if not self._config.groups:
            ordered = [parameters[index] for index in self.order(list(parameters))]
            return construct(self._make, ordered, self._config, "optimizer.args")
        members = [
            {
                "params": [parameters[index] for index in self.order(list(parameters)) if self._group_of[index] == g],
                **args,
            }
            for g, args in enumerate(({}, *self._args))
        ]
        return construct(self._make, members, self._config, "optimizer.args")

    def _checked(self, index: int) -> dict[str, Any]:
        """Returns the arguments of a group as torch takes them."""
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
def own_rates(optimizer: Any) -> Iterator[None]:
    """Within it, each group has its own learning rate."""
    rates = [(group, group["lr"]) for group in optimizer.param_groups if group.get(SHARE, 1.0) != 1.0]
    for group, rate in rates:
        group["lr"] = rate * group[SHARE]
    yield
    for group, rate in rates:
        group["lr"] = rate


def _group_of(config: OptimizerConfig, names: Sequence[str]) -> list[int]:
    """Returns the group of each tensor, 0 for the rest. Raises ConfigError for a pattern that matches none."""
    own = [without_prefix(name) for name in names]
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
