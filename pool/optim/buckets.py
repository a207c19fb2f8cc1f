"""Keeps one optimizer and one learning rate schedule for each bucket, so that buckets are stepped independently.

A bucket is a set of parameters that are stepped together. Every class compatible with torch.optim can be used, by its
dotted name. State is saved as tensors, named `parameter/key`, and plain data that is stored as JSON (invariant I7). A
large table is cut into several buckets of rows. Its state is saved as one tensor of each kind, and each bucket's
optimizer works on its rows of that tensor. Where the buckets lie on several devices, each device keeps the state of its
own rows.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from loader.plugins.error_text import format_error
from pool.checkpoint.overrides import Override, applied, with_rates
from pool.config.schedule import Schedule
from pool.config.sections import OptimizerConfig
from pool.errors import CheckpointError, RunError
from pool.exchange.plan import Bucket, Plan
from pool.exchange.tensors import bucket_rows
from pool.optim.elementwise import ELEMENTWISE
from pool.optim.factory import lists_to_tuples
from pool.optim.groups import Groups, apply_group_rates
from pool.optim.native import NativeOptimizer
from pool.optim.plain_state import check_entries, check_group
from pool.optim.schedules import Parts, load_schedule, make_schedule
from pool.run_folder.strict_json import printable

_CODE_ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError, ValueError)


class BucketOptimizers:
    """The optimizers and schedules of all buckets of a model.

    `parameters[b]` are the parameters that the optimizer of bucket b steps, in the bucket's order. They are
    parameters of the model. A bucket of some rows of a table has a parameter of its own for these rows.
    """

    def __init__(
        self,
        plan: Plan,
        parameters: Sequence[nn.Parameter],
        config: OptimizerConfig,
        schedule: Schedule,
        elsewhere: Mapping[tuple[Bucket, int], Tensor] | None = None,
    ) -> None:
        """Makes an optimizer, and a schedule if one is set, for each bucket of the plan.

        `parameters`: parameters of the model, in the plan's order. `elsewhere`: by bucket and parameter index, the
        memory of a bucket's part of a parameter that is stepped on another device than the model's.

        Raises ConfigError for a class or arguments that can't be used.
        """

        def part(index: int, bucket: Bucket) -> nn.Parameter:
            """Returns the part of the model's parameter `index` that a bucket steps."""
            whole = parameters[index]
            if elsewhere is not None and (bucket, index) in elsewhere:
                return nn.Parameter(elsewhere[bucket, index])
            return whole if bucket.rows is None else nn.Parameter(bucket_rows(whole.data, bucket))

        self._plan = plan
        self._name = config.name
        self._schedule = schedule
        self._elementwise = config.name in ELEMENTWISE
        self._groups = Groups(config, plan)
        self.parameters = [[part(index, bucket) for index in bucket.parameters] for bucket in plan.buckets]
        # parameter indices in the order in which each optimizer has them
        self._order = [self._groups.order(bucket.parameters) for bucket in plan.buckets]
        self._optimizers = [
            self._groups.optimizer(dict(zip(bucket.parameters, members, strict=True)))
            for bucket, members in zip(plan.buckets, self.parameters, strict=True)
        ]
        for bucket, optimizer, members in zip(plan.buckets, self._optimizers, self.parameters, strict=True):
            if isinstance(optimizer, NativeOptimizer):
                tables = (plan.parameters[index].sparse_field is not None for index in bucket.parameters)
                optimizer.tables = frozenset(itertools.compress(members, tables))
        self._whole: dict[str, Tensor] = {}  # state of whole tables that are cut into buckets, by `parameter/key`
        self._devices: dict[str, set[torch.device]] = {}  # devices on which a parameter is stepped, by its name
        for bucket, members in zip(plan.buckets, self.parameters, strict=True):
            for index, parameter in zip(bucket.parameters, members, strict=True):
                self._devices.setdefault(plan.parameters[index].name, set()).add(parameter.device)
        self.schedulers = [make_schedule(each, schedule) for each in self._optimizers] if schedule.is_set else []
        self._overrides: list[Override] = []

    @property
    def learning_rate(self) -> float:
        """Returns the learning rate in force, of the parameters that are in no `optimizer.groups`."""
        return float(self._optimizers[0].param_groups[0]["lr"])

    @contextlib.contextmanager
    def stepping(self, bucket: int) -> Iterator[Any]:
        """Yields the optimizer of a bucket for one step.

        Within the context each parameter group has its own learning rate. Afterwards state that the optimizer has
        made for rows of a table is moved into the state of the whole table.
        """
        with apply_group_rates(self._optimizers[bucket]):
            yield self._optimizers[bucket]
        self._join_table_state(bucket)

    def step(self, bucket: int) -> None:
        """Steps the parameters of a bucket. Parameters without a gradient are not changed, as in torch.

        Raises RunError if the optimizer's code fails, since a restarted coordinator would fail in the same way.
        """
        with self.stepping(bucket) as optimizer:
            try:
                optimizer.step()
            except _CODE_ERRORS as error:
                raise RunError(f"optimizer.name: {self._name}: fails: {format_error(error)}") from error

    def of(self, bucket: int) -> Any:
        """Returns the optimizer of a bucket."""
        return self._optimizers[bucket]

    def end_step(self, step: int) -> None:
        """Advances the schedules as often as is due after step `step`, when all buckets were stepped.

        Raises RunError if the code of a schedule fails.
        """
        for _ in range(self._schedule.scheduler_steps(step), self._schedule.scheduler_steps(step + 1)):
            self.step_schedule(step)

    def step_schedule(self, step: int) -> None:
        """Advances the schedules once, after step `step`. Raises RunError if the code of a schedule fails."""
        for scheduler in self.schedulers:
            self._advance(scheduler, step)

    def _advance(self, scheduler: Any, step: int) -> None:
        """Advances one schedule. Raises RunError, with its key in the config, if its code fails."""
        try:
            scheduler.step()
        except Exception as error:  # it would raise again in the coordinator's next life
            part = scheduler.where if isinstance(scheduler, Parts) else f"schedule.name: {self._schedule.name}"
            raise RunError(f"{part}: fails after step {step + 1}: {format_error(error)}") from error

    def follow_length(self, step: int) -> None:
        """Adapts a schedule that is given in shares of train.steps to a new length of the run, from step `step` on.

        The schedule gets the position and rates that it would have if the run had had this length from the start.
        Raises RunError if its code fails, and CheckpointError.
        """
        if not self._schedule.has_shares:
            return
        first = self._optimizers[0]
        for group in first.param_groups:
            group["lr"] = group["initial_lr"]
        self.schedulers[0] = make_schedule(first, self._schedule)
        self.move_schedule_to(step)

    def move_schedule_to(self, step: int) -> None:
        """Advances a schedule that was just made to its position before step `step`.

        Raises RunError if the code of the schedule fails, and CheckpointError.
        """
        if not self.schedulers:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that the optimizer was not stepped
            for _ in range(self._schedule.scheduler_steps(step)):
                self._advance(self.schedulers[0], step - 1)
        plain = json.loads(json.dumps(self.state()[1]))
        self.take_numbers({key: plain[key][:1] * len(plain[key]) for key in ("groups", "schedulers")})

    def set_rates(self, rate: Callable[[float], float]) -> None:
        """Sets the learning rate of each parameter group to `rate(current rate)`.

        Raises CheckpointError if the schedule can't continue from the new rates.
        """
        _, plain = self.state()
        self.take_numbers(with_rates(json.loads(json.dumps(plain)), rate))

    @property
    def divided(self) -> dict[str, list[Tensor]]:
        """Optimizer state of tables whose rows lie on several devices, by `parameter/key`, as a list of parts in
        row order."""
        parts: dict[str, list[Tensor]] = {}
        for bucket, members, optimizer in zip(self._plan.buckets, self.parameters, self._optimizers, strict=True):
            if self._is_divided(bucket):
                for key, value in optimizer.state[members[0]].items():
                    if isinstance(value, Tensor) and _has_rows(value, members[0].shape):
                        table = self._plan.parameters[bucket.parameters[0]]
                        parts.setdefault(f"{table.name}/{key}", []).append(value)
        return parts

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Returns the state as tensors, by `parameter/key`, and the rest as plain data.

        Of tensors in `divided` only the shape is returned, on the meta device. Raises CheckpointError for state that a
        checkpoint can't store.
        """
        tensors: dict[str, Tensor] = {}
        divided = {name: _shape_of(parts) for name, parts in self.divided.items()}
        numbers: dict[str, dict[str, Any]] = {}
        own_entries: list[dict[str, Any]] = []
        for b, (order, optimizer) in enumerate(zip(self._order, self._optimizers, strict=True)):
            self._join_table_state(b)
            saved = optimizer.state_dict()
            own_entries.append(_added_entries(saved))
            for i, entries in saved["state"].items():
                if not isinstance(i, int):
                    raise CheckpointError(
                        format_unsupported_state(self._name, f"{i!r} in its state, which is no parameter's")
                    )
                name = self._plan.parameters[order[i]].name
                numbers[name] = {}
                for key, value in entries.items():
                    if isinstance(value, Tensor):
                        whole = divided if f"{name}/{key}" in divided else self._whole
                        tensors[f"{name}/{key}"] = whole.get(f"{name}/{key}", value)
                    else:
                        numbers[name][key] = value
        groups = [
            [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
            for optimizer in self._optimizers
        ]
        schedulers = [scheduler.state_dict() for scheduler in self.schedulers]
        overrides = [asdict(override) for override in self._overrides]
        return tensors, {
            "numbers": numbers,
            "groups": groups,
            "entries": own_entries if any(own_entries) else [],
            "schedulers": schedulers,
            "overrides": overrides,
        }

    def override(self, override: Override) -> None:
        """Applies a user's override of a number of optimizer or schedule, unless it was applied before.

        Called between two steps. Raises CheckpointError.
        """
        if override in self._overrides:
            return
        _, plain = self.state()
        self.take_numbers(applied(json.loads(json.dumps(plain)), override, self._groups.own))
        self._overrides.append(override)

    def take_numbers(self, plain: Mapping[str, Any]) -> None:
        """Sets parameter groups and schedules from changed plain data, as `state` returns it. Raises
        CheckpointError."""
        with _raising_checkpoint_error():
            for optimizer, groups in zip(self._optimizers, plain["groups"], strict=True):
                for group, saved in zip(optimizer.param_groups, groups, strict=True):
                    changed = {**getattr(optimizer, "added", {}), **saved}
                    check_group({key: value for key, value in group.items() if key != "params"}, changed)
                    group.update(lists_to_tuples(changed))
            self._load_schedules(plain["schedulers"])

    def load_state(self, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
        """Restores what `state` returned.

        If `plain["groups"]` is None, groups and schedules keep the numbers of the config. Raises CheckpointError if
        the state does not fit the optimizer or the buckets.
        """
        own_numbers = plain["groups"] is None  # a stage sets numbers other than the checkpoint's
        if not own_numbers and len(plain["groups"]) != len(self._optimizers):
            raise CheckpointError(
                f"optimizer state is of {len(plain['groups'])} buckets, and the config makes {len(self._optimizers)}: "
                "set pool.first_bucket_mb, pool.bucket_mb and optimizer.name as they were (in checkpoints from before "
                "tables were cut in rows: a pool.bucket_mb larger than the table)"
            )
        with _raising_checkpoint_error():
            self._check_names(tensors, plain["numbers"])
            tensors = {name: self._move_to_device(name, tensor) for name, tensor in tensors.items()}
            all_groups = [each.param_groups for each in self._optimizers] if own_numbers else plain["groups"]
            all_entries = plain.get("entries") or [{}] * len(self._optimizers)
            of_buckets = zip(self._plan.buckets, self._order, self._optimizers, all_groups, all_entries, strict=True)
            for bucket, order, optimizer, groups, entries in of_buckets:
                state = {
                    position: self._state_of(bucket, index, tensors, plain["numbers"])
                    for position, index in enumerate(order)
                    if self._plan.parameters[index].name in plain["numbers"]
                }
                fresh = optimizer.state_dict()
                own_groups = fresh["param_groups"]
                if entries:
                    check_entries(_added_entries(fresh), entries)
                groups = [
                    {**lists_to_tuples(group), "params": own["params"]}
                    for group, own in zip(groups, own_groups, strict=True)
                ]
                optimizer.load_state_dict({**entries, "state": state, "param_groups": groups})
                for group, own in zip(optimizer.param_groups, own_groups, strict=True):
                    check_group(own, group)  # a group of another optimizer would fail in the first step
            if not own_numbers:
                self._load_schedules(plain["schedulers"])
        self._overrides = [Override(**entry) for entry in plain.get("overrides", ())]

    def _load_schedules(self, plain: Sequence[Mapping[str, Any]]) -> None:
        for scheduler, entry in zip(self.schedulers, plain, strict=True):
            load_schedule(scheduler, entry)

    def _check_names(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Raises ValueError if an entry of a saved state belongs to no parameter.

        For optimizers in ELEMENTWISE, whose state has known shapes, shapes and numbers of steps are checked, too.
        """
        parameters = {parameter.name: parameter for parameter in self._plan.parameters}
        if unknown := numbers.keys() - parameters.keys():
            raise ValueError(f"it has numbers of {printable(min(unknown))}, which is no parameter")
        for name, tensor in tensors.items():
            parameter = parameters.get(name.rpartition("/")[0])
            if parameter is None:
                raise ValueError(f"it has a tensor {printable(name)}, which belongs to no parameter")
            if not self._elementwise:
                continue
            by_row = (*parameter.shape[:1], 1)
            if tensor.shape not in (parameter.shape, by_row) and tensor.numel() != 1:
                raise ValueError(f"{name} has shape {tuple(tensor.shape)}, its parameter {parameter.shape}")
            if name.endswith("/step") and tensor.numel() == 1 and not 0 <= float(tensor) < 2.0**63:
                raise ValueError(f"{name} is {float(tensor)}")

    def _state_of(
        self, bucket: Bucket, index: int, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Returns the state of a parameter in a bucket, by key. If the bucket is some rows of a table, only these
        rows."""
        parameter = self._plan.parameters[index]
        prefix = f"{parameter.name}/"
        entries = dict(numbers[parameter.name])
        for name, tensor in tensors.items():
            if name.startswith(prefix):
                if bucket.rows is not None and _has_rows(tensor, parameter.shape):
                    if not self._is_divided(bucket):
                        self._whole[name] = tensor
                    tensor = bucket_rows(tensor, bucket)  # load_state_dict moves it to the device of the parameter
                elif bucket.rows is not None:
                    tensor = tensor.clone()  # each bucket counts its own steps
                entries[name.removeprefix(prefix)] = tensor
        return entries

    def _is_divided(self, bucket: Bucket) -> bool:
        """Returns whether a bucket is some rows of a table that lies on several devices."""
        return bucket.rows is not None and len(self._devices[self._plan.parameters[bucket.parameters[0]].name]) > 1

    def _move_to_device(self, name: str, saved: Tensor) -> Tensor:
        """Moves a saved tensor to the device of its parameter, unless the parameter lies on several devices."""
        devices = self._devices[name.rpartition("/")[0]]
        return saved.to(next(iter(devices))) if saved.dim() and len(devices) == 1 else saved

    def _join_table_state(self, b: int) -> None:
        """Moves state that an optimizer has made for some rows of a table into the tensor for the whole table."""
        bucket = self._plan.buckets[b]
        if bucket.rows is None or self._is_divided(bucket):
            return
        (parameter,) = self.parameters[b]
        table = self._plan.parameters[bucket.parameters[0]]
        for key, value in self._optimizers[b].state[parameter].items():
            if not isinstance(value, Tensor) or not _has_rows(value, parameter.shape):
                continue
            name = f"{table.name}/{key}"
            whole = self._whole.get(name)
            if whole is None:
                whole = self._whole[name] = value.new_empty((table.shape[0], *value.shape[1:]))
            place = bucket_rows(whole, bucket)
            if place.data_ptr() != value.data_ptr():
                self._optimizers[b].state[parameter][key] = place.copy_(value)


def _added_entries(state_dict: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the entries of an optimizer's state_dict besides `state` and `param_groups`, which its class has
    added."""
    return {key: value for key, value in state_dict.items() if key not in ("state", "param_groups")}


def format_unsupported_state(optimizer: str, what: str) -> str:
    """Formats the error message for an optimizer whose state a checkpoint can't store."""
    return f"optimizer.name: {optimizer}: keeps {what}, and a checkpoint has no place for that: take another optimizer"


def _has_rows(state: Tensor, parameter: Sequence[int]) -> bool:
    """Returns whether a tensor of the state has a row for each row of the parameter, of the same width or of width
    1."""
    return tuple(state.shape) in (tuple(parameter), (parameter[0], 1))


def _shape_of(parts: Sequence[Tensor]) -> Tensor:
    """Returns a tensor on the meta device with the shape of the concatenated parts."""
    return parts[0].new_empty((sum(map(len, parts)), *parts[0].shape[1:]), device="meta")


@contextlib.contextmanager
def _raising_checkpoint_error() -> Iterator[None]:
    """Turns every exception within the context into CheckpointError.

    A class that the user has chosen may raise anything when it is given unsuitable state.
    """
    try:
        yield
    except Exception as error:
        reason = str(error) if isinstance(error, ValueError) else format_error(error)
        raise CheckpointError(
            f"optimizer state does not fit optimizer and schedule of the config: {printable(reason, 500)}"
        ) from None
