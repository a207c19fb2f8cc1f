"""Makes, saves and restores the learning rate schedule of an optimizer: one scheduler, or several in sequence.

torch's SequentialLR is not used. It makes all its schedulers at once, each of which changes the rate, and starts each
through `step(epoch)`, which not every class supports.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch

from pool.config.parts import find_part, first_steps
from pool.config.schedule import Schedule
from pool.errors import ConfigError
from pool.optim.factory import construct
from pool.optim.names import load_class
from pool.optim.plain_state import check_schedule

_OF_TORCH = torch.optim.lr_scheduler.__name__


class Parts:
    """A sequence of schedulers, each of which runs as if it were the only one.

    Each part starts from the learning rate in the optimizer's arguments. A part without a class keeps that rate.
    """

    def __init__(self, optimizer: Any, config: Schedule) -> None:
        """Loads the classes of all parts and starts the first. Raises ConfigError with the key of the part."""
        self.last_epoch = 0  # steps done, of all parts
        self.begins = first_steps(config.parts)
        self._optimizer = optimizer
        self._parts = config.parts
        self._base_lrs = [group["lr"] for group in optimizer.param_groups]
        self._makes = [
            None if part.name is None else _load(part.name, f"schedule.parts.{index}.name")
            for index, part in enumerate(config.parts)
        ]
        self._scheduler = self._start_part()

    @property
    def where(self) -> str:
        """The config's key of the current part, and its class."""
        return f"schedule.parts.{self._index}.name: {self._parts[self._index].name}"

    def step(self) -> None:
        """Advances by one step, to the next part if that begins now."""
        self.last_epoch += 1
        if self.begins[self._index] == self.last_epoch:
            self._scheduler = self._start_part()
        elif self._scheduler is not None:
            self._scheduler.step()

    def state_dict(self) -> dict[str, Any]:
        """Returns the position, the initial rates and the state of the current part's scheduler."""
        inner = [] if self._scheduler is None else [self._scheduler.state_dict()]
        return {"last_epoch": self.last_epoch, "base_lrs": list(self._base_lrs), "_schedulers": inner}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state. The optimizer's groups are left unchanged, because their state is restored elsewhere.

        Raises ValueError if the state does not fit the current part.
        """
        groups = [{key: copy.copy(value) for key, value in g.items() if key != "params"} for g in self._groups]
        self.last_epoch = state["last_epoch"]
        self._base_lrs = list(state["base_lrs"])
        self._scheduler = self._start_part()
        if len(state["_schedulers"]) != (self._scheduler is not None):
            raise ValueError(f"{self.where}: its state has {len(state['_schedulers'])} schedulers")
        for saved in state["_schedulers"]:
            load_schedule(self._scheduler, saved)
        for group, values in zip(self._groups, groups, strict=True):
            for key in group.keys() - values.keys() - {"params"}:
                del group[key]
            group.update(values)

    def skip_to(self, step: int) -> None:
        """Sets the position to `step` without the steps before it, which must lie within the current part. For
        trials only."""
        self.last_epoch = step
        skip_to(self._scheduler, step - self.begins[self._index])

    @property
    def _groups(self) -> Any:
        return self._optimizer.param_groups

    @property
    def _index(self) -> int:
        """The index of the current part."""
        return find_part(self.begins, self.last_epoch)

    def _start_part(self) -> Any:
        """Resets the learning rates and returns a new scheduler of the current part; None for a part without a
        class."""
        for group, rate in zip(self._groups, self._base_lrs, strict=True):
            group["lr"] = group["initial_lr"] = rate
        make, key = self._makes[self._index], f"schedule.parts.{self._index}.args"
        return None if make is None else construct(make, self._optimizer, self._parts[self._index], key)


def make_schedule(optimizer: Any, config: Schedule) -> Any:
    """Makes the scheduler of an optimizer. Returns None if the config sets no schedule. Raises ConfigError."""
    if config.parts:
        return Parts(optimizer, config)
    if config.name is None:
        return None
    return construct(_load(config.name, "schedule.name"), optimizer, config, "schedule.args")


def _load(name: str, key: str) -> Any:
    """Loads the class of a scheduler. Raises ConfigError for ReduceLROnPlateau, and for a class that can't be
    loaded."""
    scheduler = load_class(name, key)
    if scheduler is torch.optim.lr_scheduler.ReduceLROnPlateau:
        raise ConfigError(
            f"{key}: {name} steps with validations, not with steps: set schedule.plateau.patience and "
            "schedule.plateau.factor instead, beside any other schedule"
        )
    return scheduler


def load_schedule(scheduler: Any, state: Mapping[str, Any]) -> None:
    """Restores a scheduler from a state that was saved as JSON. Raises ValueError if the state does not fit it."""
    own = scheduler.state_dict()
    saved = {key: _convert_to_type(own.get(key), value) for key, value in state.items()}
    if isinstance(scheduler, Parts):  # it checks the state of its current part itself
        check_schedule({key: value for key, value in own.items() if key != "_schedulers"}, saved)
        if own.keys() != saved.keys() or not isinstance(saved["_schedulers"], list):
            raise ValueError(f"the schedule has {', '.join(saved)}, not {', '.join(own)}")
    else:
        check_schedule(own, saved)
    scheduler.load_state_dict(saved)


def skip_to(scheduler: Any, step: int) -> None:
    """Sets the position of a scheduler of torch, or of `Parts`, to `step`. Other schedulers are not changed.

    For trials only, because rates that depend on earlier steps become wrong.
    """
    if isinstance(scheduler, Parts):
        scheduler.skip_to(step)
    elif type(scheduler).__module__ == _OF_TORCH:
        scheduler.last_epoch = step


def _convert_to_type(own: Any, saved: Any) -> Any:
    """Converts a saved value to the type that the scheduler itself has.

    JSON turns numbers that are keys (MultiStepLR's milestones) into text.
    """
    if isinstance(own, dict) and isinstance(saved, Mapping):
        types = {type(key) for key in own}
        key_type = types.pop() if len(types) == 1 else str
        return type(own)({key_type(key): value for key, value in saved.items()})
    return saved
