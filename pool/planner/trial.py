"""Tries optimizer and schedule on small tensors, before the run begins.

So errors are reported early, and the size of their state is known, for which memory is reserved.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from loader.plugins.error_text import format_error
from pool.checkpoint.overrides import Override, allowed
from pool.checkpoint.snapshot import area_nbytes
from pool.checkpoint.state import OPTIMIZER, STATE, read_header, read_state
from pool.checkpoint.store import tensor_bytes
from pool.checkpoint.tensor_file import DTYPES, Header
from pool.config.key_path import format_key
from pool.config.parts import first_steps
from pool.config.tree import Config
from pool.errors import CheckpointError, ConfigError, PoolError, RunError
from pool.exchange.plan import Plan
from pool.exchange.tensors import torch_dtype
from pool.optim.buckets import BucketOptimizers, format_unsupported_state
from pool.optim.elementwise import ELEMENTWISE
from pool.optim.joined_state import split_state
from pool.optim.names import load_class
from pool.optim.native import NativeOptimizer
from pool.optim.schedules import skip_to
from pool.planner.optimizer_check import check_optimizer, preserve_generators
from pool.planner.small_plan import shrink_plan, with_buckets, zero_parameters

_NUM_VALIDATIONS = 3  # whose numbers a snapshot has: the newest, the best, and the record
_BYTES_PER_NAME = 120  # of the text around a name in a document
_NO_CLOSURE = " (it computes losses itself, by a closure, which nobody gives it here: take another optimizer)"
MAX_TRIED_STEPS = 10_000  # steps of a schedule, which take about a tenth of a second


@dataclass(frozen=True)
class _StateSize:
    """The size of one member's state."""

    tensor_nbytes: tuple[int, ...]  # of each tensor
    document_nbytes: int  # of everything else


def snapshot_nbytes(
    config: Config, plans: Sequence[Plan], overrides: Sequence[Override] = (), metrics: Sequence[tuple[str, str]] = ()
) -> int:
    """Returns the bytes of the memory area for a snapshot, which holds weights and optimizer state of all members.

    It suffices for every optimizer whose state grows no faster than its parameters. `plans`: of each member. Raises
    ConfigError if optimizer or schedule can't be used.
    """
    size_by_optimizer: dict[str, _StateSize] = {}  # members with the same optimizer and schedule are tried once
    member_sizes = []
    for index, (member, plan) in enumerate(zip(config.members, plans, strict=True)):
        optimizer = f"{member.optimizer} {member.schedule}"
        if optimizer not in size_by_optimizer:
            with name_member_in_errors(config, index), preserve_generators():
                size_by_optimizer[optimizer] = _measure_state(member, plan)
        member_sizes.append(size_by_optimizer[optimizer])
    tensor_nbytes = [nbytes for size in member_sizes for nbytes in size.tensor_nbytes]
    document_nbytes = sum(size.document_nbytes for size in member_sizes)
    document_nbytes += len(json.dumps([asdict(override) for override in overrides]))
    metrics_nbytes = _BYTES_PER_NAME + sum(len(name) + _BYTES_PER_NAME for name, _ in metrics)
    document_nbytes += (1 + len(plans)) * _NUM_VALIDATIONS * metrics_nbytes
    if config.train.average.kind is not None:
        averaged = [tensor for plan in plans for tensor in (*plan.parameters, *plan.buffers)]
        tensor_nbytes += [tensor.nbytes for tensor in averaged]
        document_nbytes += sum(len(tensor.name) + _BYTES_PER_NAME for tensor in averaged)
    return area_nbytes(tensor_nbytes, document_nbytes)


@contextlib.contextmanager
def name_member_in_errors(config: Config, member: int) -> Iterator[None]:
    """Adds the number of the member to a ConfigError within the context, if the config has tables for members."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"ensemble.member.{member}: {error}" if config.ensemble.member else str(error)) from None


def _measure_state(config: Config, plan: Plan) -> _StateSize:
    """Tries optimizer and schedule of a member on small tensors. Returns the size of their state for the whole
    model."""
    small = shrink_plan(plan)
    try:
        tensors, plain = _after_one_step(config, small)
    except ConfigError as error:
        explanation = _NO_CLOSURE if "closure" in str(error) else _explain_failure(config, small)
        raise ConfigError(f"{error}{explanation}") from None
    if config.optimizer.name not in ELEMENTWISE:
        tensors, _ = check_optimizer(config, small)
    _try_schedule(config, plan)
    _try_clipping(config, small)
    _check_steps(config, _create_optimizers(config, small))
    model_tensors = (*plan.parameters, *plan.buffers)
    tensor_nbytes = [tensor.nbytes for tensor in model_tensors]
    for parameter, small_parameter in zip(plan.parameters, small.parameters, strict=True):
        for name, state in tensors.items():
            if name.rpartition("/")[0] == parameter.name:
                factor = _growth_factor(tuple(state.shape), small_parameter.shape, parameter.shape)
                tensor_nbytes.append(state.nbytes * factor)
    names = [*(tensor.name for tensor in model_tensors), *tensors]
    document_nbytes = len(json.dumps(plain)) + sum(len(name) + _BYTES_PER_NAME for name in names)
    return _StateSize(tuple(tensor_nbytes), document_nbytes)


def _growth_factor(state: tuple[int, ...], small: tuple[int, ...], full: tuple[int, ...]) -> int:
    """Returns by which factor a tensor of optimizer state grows, when its parameter has the shape `full` instead of
    `small`."""
    has_number_per_row = state == (*small[:1], 1) != small
    if has_number_per_row:
        return _divide_up(full[0], small[0])
    num_small = math.prod(small)
    if math.prod(state) == 1 and num_small != 1:  # one number for the whole parameter
        return 1
    return _divide_up(math.prod(full), num_small)


def _divide_up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def try_saved_state(
    config: Config, plans: Sequence[Plan], checkpoint: Path, overrides: Sequence[Override] = ()
) -> None:
    """Tries a step of each member from a checkpoint's optimizer and schedule state.

    Used are the numbers in state.json, and the names and dtypes of the optimizer's tensors, but not their values.
    Raises CheckpointError if they do not fit, and ConfigError if they do not fit with the overrides only.
    """
    saved = read_state(checkpoint)
    read_optimizer_header = functools.cache(lambda: read_header(checkpoint, saved, OPTIMIZER))
    states = split_state(config.members, plans, ({}, saved.optimizer.plain()))
    new_overrides = [override for override in overrides if override not in saved.optimizer.overrides]
    for index, (member, plan, (_, plain)) in enumerate(zip(config.members, plans, states, strict=True)):
        with name_member_in_errors(config, index):
            keys = set(allowed(plain))
            member_overrides = [override for override in new_overrides if override.key in keys]
            _try_state_of(member, shrink_plan(plan), checkpoint, read_optimizer_header, plain, member_overrides)


def _try_state_of(
    config: Config,
    small: Plan,
    checkpoint: Path,
    header: Callable[[], Header],
    saved: Mapping[str, Any],
    overrides: Sequence[Override],
) -> None:
    """Tries the state of one member. `saved`: its part of the state in state.json."""
    tensors, plain = _after_one_step(config, small)
    optimizers = _create_optimizers(config, small)
    try:
        if config.optimizer.name in ELEMENTWISE:
            _compare_tensors(tensors, saved["numbers"], header())
        state = {**saved, "numbers": {**plain["numbers"], **saved["numbers"]}}
        optimizers.load_state(tensors, state)
        _step(config, optimizers)
    except CheckpointError as error:
        raise CheckpointError(f"{checkpoint / STATE}: {error}") from None
    except Exception as error:
        raise CheckpointError(
            f"{checkpoint / STATE}: optimizer and schedule can't go on from this: {format_error(error)}"
        ) from None
    for override in overrides:
        _try_override(config, small, tensors, state, override)
        optimizers.override(override)
    _check_steps(config, optimizers)


def _try_override(
    config: Config, plan: Plan, tensors: Mapping[str, torch.Tensor], state: Mapping[str, Any], override: Override
) -> None:
    """Tries a step with an override, after the checks of the optimizer's or schedule's own class. Raises
    ConfigError."""
    option = f"--override {override.key}={json.dumps(override.value)}"
    section, _, key = override.key.partition(".args.")
    try:
        settings = getattr(config, section)
        changed = settings.model_copy(update={"args": {**settings.args, key: override.value}})
        _create_optimizers(config.model_copy(update={section: changed}), plan)
        optimizers = _create_optimizers(config, plan)
        optimizers.load_state(tensors, state)
        optimizers.override(override)
        _step(config, optimizers)
    except Exception as error:
        raise ConfigError(f"{option}: {error}") from None


def _compare_tensors(tried: Mapping[str, torch.Tensor], stepped: Collection[str], header: Header) -> None:
    """Raises CheckpointError if a tensor of the optimizer is missing in a checkpoint or has another dtype.

    Only parameters that have been stepped (`stepped`) must have all tensors.
    """
    for name, tensor in tried.items():
        if name.rpartition("/")[0] not in stepped:
            continue
        dtype = str(tensor.dtype).removeprefix("torch.")
        if name not in header:
            raise CheckpointError(f"{OPTIMIZER} has no tensor {name}")
        saved_dtype = DTYPES[header[name].dtype][0]
        if saved_dtype != dtype:
            raise CheckpointError(f"{OPTIMIZER}: {name} is {saved_dtype}, not {dtype}")


def _create_optimizers(config: Config, plan: Plan) -> BucketOptimizers:
    """Returns optimizers and schedules for a plan, with parameters of zeros."""
    return BucketOptimizers(plan, zero_parameters(plan), config.optimizer, config.run_schedule)


def _step(config: Config, optimizers: BucketOptimizers) -> None:
    """Steps all buckets with gradients of zeros, and then the schedules once."""
    for bucket, members in enumerate(optimizers.parameters):
        for parameter in members:
            parameter.grad = torch.zeros_like(parameter)
        optimizers.step(bucket)
    optimizers.step_schedule(config.run_schedule.training_step(1) - 1)


def _after_one_step(config: Config, plan: Plan) -> tuple[Mapping[str, torch.Tensor], Mapping[str, Any]]:
    """Returns the state after one step, converted to plain data and back. Raises ConfigError."""
    try:
        optimizers = _create_optimizers(config, plan)
        _step(config, optimizers)
        assert isinstance(optimizers.learning_rate, float)
        tensors, plain = optimizers.state()
        tensor_bytes(tensors)
        _check_plain(config, plain)
        plain = json.loads(json.dumps(plain))
        _create_optimizers(config, plan).load_state(tensors, plain)
    except PoolError as error:  # it names the key
        raise ConfigError(str(error)) from None
    except (Exception, SystemExit) as error:  # a class of the user's choice may raise anything
        keys = f"optimizer.name: {config.optimizer.name}"
        if config.schedule.is_set:
            keys += f", schedule.name: {config.schedule.name}" if config.schedule.name else ", schedule.parts"
        raise ConfigError(f"{keys}: can't be used here: {format_error(error)}") from None
    return tensors, plain


def _check_plain(config: Config, plain: Mapping[str, Any]) -> None:
    """Raises ConfigError, with its name, for the first entry of an optimizer's state that is neither tensor nor
    plain data."""
    dicts = [(state, "its state") for state in plain["numbers"].values()]
    dicts += [(group, "its parameter groups") for groups in plain["groups"] for group in groups]
    dicts += [(entries, "its state_dict") for entries in plain["entries"]]
    for entries, location in dicts:
        for key, value in entries.items():
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                problem = f"{_describe_kind(value)}, {key!r}, in {location}"
                raise ConfigError(format_unsupported_state(config.optimizer.name, problem)) from None


def _describe_kind(value: Any) -> str:
    """Describes the kind of a value, as text."""
    if isinstance(value, torch.Tensor):
        return "a tensor"
    if isinstance(value, dict | list | tuple | deque) and _contains_tensor(value):
        return f"a {type(value).__name__} of tensors"
    return f"an object of the class {type(value).__name__}"


def _contains_tensor(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_contains_tensor, value.values()))
    if isinstance(value, list | tuple | deque):
        return any(map(_contains_tensor, value))
    return isinstance(value, torch.Tensor)


def _explain_failure(config: Config, plan: Plan) -> str:
    """Describes what prevents optimizer and schedule from being used, as the end of an error message.

    This is the first argument without which they work, or a kind of parameters that the optimizer does not accept.
    Returns "" if it is neither.
    """
    for section_name in ("optimizer", "schedule"):
        section = getattr(config, section_name)
        args: Mapping[str, Any] = section.args
        for key, value in args.items():
            args_without = {name: arg for name, arg in args.items() if name != key}
            section_without = section.model_copy(update={"args": args_without})
            if _can_step(config.model_copy(update={section_name: section_without}), plan):
                return f" (it is {section_name}.args.{format_key([key])} = {repr(value)[:80]}: without it, it works)"
    return _explain_refused_parameters(config, plan)


def _explain_refused_parameters(config: Config, plan: Plan) -> str:
    """Describes which parameters the optimizer does not accept, as the end of an error message.

    It may accept matrices only, or accept parameters in groups only. Returns "" if it is neither.
    """
    matrices = tuple(parameter for parameter in plan.parameters if len(parameter.shape) == 2)
    others = [parameter for parameter in plan.parameters if len(parameter.shape) != 2]
    if matrices and others:
        plan_of_matrices = with_buckets(replace(plan, parameters=matrices), tuple(range(len(matrices))))
        if _can_step(config, plan_of_matrices):
            return f" (it takes matrices only, and {others[0].name} is none)"
    optimizer_class = load_class(config.optimizer.name, "optimizer.name")
    try:
        optimizer_class(zero_parameters(plan), **config.optimizer.args)
    except (TypeError, SystemExit):  # an argument is missing, which the error names
        return ""
    except Exception as error:
        problem = _find_group_problem(optimizer_class, plan, config.optimizer.args)
        if problem not in ("", format_error(error)):
            return f" (it takes groups with settings of their own, for matrices and others, and no list: {problem})"
    return ""


def _find_group_problem(optimizer_class: Any, plan: Plan, args: Mapping[str, Any]) -> str:
    """Returns the error message of an optimizer's class for one group of all parameters; "" if it accepts the group."""
    try:
        optimizer_class([{"params": zero_parameters(plan)}], **args)
    except Exception as error:
        return format_error(error)
    return ""


def _can_step(config: Config, plan: Plan) -> bool:
    """Returns whether optimizer and schedule can do a step."""
    try:
        _after_one_step(config, plan)
    except ConfigError:
        return False
    return True


def _try_schedule(config: Config, plan: Plan) -> None:
    """Steps the schedule through the steps of the run. Raises ConfigError if its code fails.

    Of a long schedule only the first steps of each part are done, and the last few after a jump. The jump works for
    torch's classes, which count in `last_epoch`.
    """
    schedule = config.run_schedule
    optimizers = single_bucket_optimizer(config, plan)
    next_step = 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that the optimizer was not stepped
            for step in _select_steps(first_steps(schedule.parts), schedule.scheduler_steps(config.train.steps)):
                if step != next_step:
                    for scheduler in optimizers.schedulers:
                        skip_to(scheduler, step)
                optimizers.step_schedule(schedule.training_step(step + 1) - 1)
                next_step = step + 1
    except RunError as error:
        raise ConfigError(f"{error}; the run has train.steps = {config.train.steps}") from None
    if config.schedule.plateau.patience is not None:
        try:
            optimizers.set_rates(lambda rate: rate)
        except CheckpointError as error:
            raise ConfigError(f"schedule.plateau: the learning rate can't be reduced: {error}") from None


def _check_steps(config: Config, optimizers: BucketOptimizers) -> None:
    """Raises ConfigError if weights are validated, saved, averaged or exported at a step at which they are not fit for
    it.

    RangerLite's weights are fit after every `lookahead_steps` steps.
    """
    optimizer, train = optimizers.of(0), config.train
    period = optimizer.shown_every if isinstance(optimizer, NativeOptimizer) else 1
    keys = ["steps", "checkpoint_every", "validate_every", "keep_every", "export_every"]
    steps = {f"train.{key}": getattr(train, key) or 0 for key in keys}
    if train.average.kind is not None:
        steps |= {"train.average.start": train.average.start, "train.average.every": train.average.every}
    for key, step in steps.items():
        if step % period:
            raise ConfigError(
                f"{key}: {step} is no multiple of {period}: {config.optimizer.name} looks ahead every {period} steps "
                "(optimizer.args.lookahead_steps), and the weights are to be looked at then"
            )


def single_bucket_optimizer(config: Config, plan: Plan) -> BucketOptimizers:
    """Returns optimizer and schedule of the first bucket alone, with one small parameter."""
    small = shrink_plan(plan)
    bucket = replace(small.buckets[0], parameters=plan.buckets[0].parameters[:1])
    return BucketOptimizers(
        replace(small, buckets=(bucket,)), zero_parameters(small), config.optimizer, config.run_schedule
    )


def _select_steps(begins: Sequence[int], due: int) -> Iterator[int]:
    """Yields the steps of a schedule to try. `begins`: first step of each part. `due`: number of the schedule's
    steps."""
    ends = [end for end in begins[1:] if end < due] + [due]
    steps_per_part = MAX_TRIED_STEPS // len(ends)
    for begin, end in zip(begins, ends, strict=False):
        yield from range(begin, min(end, begin + steps_per_part))
        yield from range(max(begin + steps_per_part, end - 2), end)


def _try_clipping(config: Config, plan: Plan) -> None:
    """Raises ConfigError if the dtype of gradients can't represent `train.clip_value`."""
    limit = config.train.clip_value
    if limit is None:
        return
    for dtype in sorted({tensor.dtype for tensor in plan.parameters}):
        try:
            torch.zeros(1, dtype=torch_dtype(dtype)).clamp_(-limit, limit)
        except RuntimeError as error:
            raise ConfigError(f"train.clip_value: {limit:g}: gradients are {dtype}: {format_error(error)}") from None
