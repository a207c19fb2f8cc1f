"""The learning rate schedule of one optimizer: a scheduler, or parts one after the other; saved, and gone on with.

torch's SequentialLR is not used: it makes all its schedulers at once, each of which changes the rate, and begins a part
through `step(epoch)`, which not every class understands.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch

from pool.config.parts import first_steps, in_force
from pool.config.schedule import Schedule
from pool.errors import ConfigError
from pool.optim.factory import construct
from pool.optim.names import load_class
from pool.optim.plain_state import check_schedule

_OF_TORCH = torch.optim.lr_scheduler.__name__


class Parts:
    """Schedulers one after the other, each as if it were the only one: it begins with the rate of the optimizer's
    arguments. A part without a class keeps that rate."""

    def __init__(self, optimizer: Any, config: Schedule) -> None:
        """Raises ConfigError that names the part."""
        self.last_epoch = 0  # steps done, of all parts
        self.begins = first_steps(config.parts)
        self._optimizer = optimizer
        self._parts = config.parts
        self._base_lrs = [group["lr"] for group in optimizer.param_groups]
        self._makes = [
            None if part.name is None else _load(part.name, f"schedule.parts.{index}.name")
            for index, part in enumerate(config.parts)
        ]
        self._scheduler = self._begin()

    @property
    def where(self) -> str:
        """The key of the part that is in force, and its class."""
        return f"schedule.parts.{self._index}.name: {self._parts[self._index].name}"

    def step(self) -> None:
        self.last_epoch += 1
        if self.begins[self._index] == self.last_epoch:
            self._scheduler = self._begin()
        elif self._scheduler is not None:
            self._scheduler.step()

    def state_dict(self) -> dict[str, Any]:
        inner = [] if self._scheduler is None else [self._scheduler.state_dict()]
        return {"last_epoch": self.last_epoch, "base_lrs": list(self._base_lrs), "_schedulers": inner}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The optimizer's groups stay as they are: they have a state of their own. Raises ValueError."""
        groups = [{key: copy.copy(value) for key, value in g.items() if key != "params"} for g in self._groups]
        self.last_epoch = state["last_epoch"]
        self._base_lrs = list(state["base_lrs"])
        self._scheduler = self._begin()
        if len(state["_schedulers"]) != (self._scheduler is not None):
            raise ValueError(f"{self.where}: its state has {len(state['_schedulers'])} schedulers")
        for saved in state["_schedulers"]:
            load_schedule(self._scheduler, saved)
        for group, values in zip(self._groups, groups, strict=True):
            for key in group.keys() - values.keys() - {"params"}:
                del group[key]
            group.update(values)

    def skip_to(self, step: int) -> None:
        """Goes on as if so many steps had been done, all within the part in force: for trials only."""
        self.last_epoch = step
        skip_to(self._scheduler, step - self.begins[self._index])

    @property
    def _groups(self) -> Any:
        return self._optimizer.param_groups

    @property
    def _index(self) -> int:
        return in_force(self.begins, self.last_epoch)

    def _begin(self) -> Any:
        """The scheduler of the part in force, at its first step."""
        for group, rate in zip(self._groups, self._base_lrs, strict=True):
            group["lr"] = group["initial_lr"] = rate
        make, key = self._makes[self._index], f"schedule.parts.{self._index}.args"
        return None if make is None else construct(make, self._optimizer, self._parts[self._index], key)


def make_schedule(optimizer: Any, config: Schedule) -> Any:
    """The scheduler of an optimizer; None if the rate does not change. Raises ConfigError."""
    if config.parts:
        return Parts(optimizer, config)
    if config.name is None:
        return None
    return construct(_load(config.name, "schedule.name"), optimizer, config, "schedule.args")


def _load(name: str, key: str) -> Any:
    """The class of a scheduler. Raises ConfigError."""
    scheduler = load_class(name, key)
    if scheduler is torch.optim.lr_scheduler.ReduceLROnPlateau:
        raise ConfigError(
            f"{key}: {name} steps with validations, not with steps: set schedule.plateau.patience and "
            "schedule.plateau.factor instead, beside any other schedule"
        )
    return scheduler


def load_schedule(scheduler: Any, state: Mapping[str, Any]) -> None:
    """Goes on from a state that was saved as JSON. Raises ValueError for one that can't be this scheduler's."""
    own = scheduler.state_dict()
    saved = {key: _like(own.get(key), value) for key, value in state.items()}
    if isinstance(scheduler, Parts):  # of which part the state within is, only it can say
        check_schedule({key: value for key, value in own.items() if key != "_schedulers"}, saved)
        if own.keys() != saved.keys() or not isinstance(saved["_schedulers"], list):
            raise ValueError(f"the schedule has {', '.join(saved)}, not {', '.join(own)}")
    else:
        check_schedule(own, saved)
    scheduler.load_state_dict(saved)


def skip_to(scheduler: Any, step: int) -> None:
    """A scheduler whose place is known stands behind so many steps; any other stays where it is. For trials only."""
    if isinstance(scheduler, Parts):
        scheduler.skip_to(step)
    elif type(scheduler).__module__ == _OF_TORCH:
        scheduler.last_epoch = step


def _like(own: Any, saved: Any) -> Any:
    """A saved value as the scheduler itself holds it: JSON knows no numbers as keys (MultiStepLR's milestones)."""
    if isinstance(own, dict) and isinstance(saved, Mapping):
        types = {type(key) for key in own}
        key_type = types.pop() if len(types) == 1 else str
        return type(own)({key_type(key): value for key, value in saved.items()})
    return saved
