"""The planner process: builds the model, plans the memory, and checks that task, data and settings fit.

It runs before any shared memory is reserved, answers with one JSON document, and ends.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from loader.errors import DataError, has_error_number
from loader.exit_codes import EXIT_DATA, EXIT_UNAVAILABLE
from loader.plugins.error_text import MAX_MESSAGE_LENGTH, format_error_with_location, shorten
from loader.stream.schema import BatchSchema
from pool import numerics
from pool.config.ensemble import MAX_GROUP_LOSSES
from pool.config.tree import Config
from pool.crash_points import crash_point
from pool.device.cards import VISIBLE_DEVICES, describe_hidden_cards
from pool.device.installation import count_installed_cards, explain_unusable_cards, read_driver_version
from pool.device.names import describe_unused_devices, parse_device, resolve_devices
from pool.device.plugins import add_devices
from pool.device.precision import apply_arithmetic
from pool.device.probe import describe_cards
from pool.ensemble.factory import describe_tensor
from pool.errors import AWAY_ERRORS, ConfigError, PoolError, UnavailableError
from pool.exchange.layout import join_plans, member_prefix
from pool.exchange.plan import Plan, Tensor, TensorSpec, build_plan
from pool.exchange.tensors import tensor_specs
from pool.metrics.layout import Measured, create_layout
from pool.optim.elementwise import ELEMENTWISE
from pool.optim.plateau import plateau_rule
from pool.planner.data import DataPlan, plan_data
from pool.planner.exchange import choose_exchange, optimizers_match_across_devices
from pool.planner.model_check import check_model
from pool.planner.optimizer_check import couples_all_parameters
from pool.planner.rates import plan_learning_rates
from pool.planner.small_plan import shrink_plan
from pool.planner.trial import name_member_in_errors, snapshot_nbytes, try_saved_state
from pool.process.plan_result import Accepted, Answer, Planned, Refused
from pool.process.start import PlannerStart
from pool.protocol.codec import MAX_ITEMS
from pool.run_folder.access import show_real_paths
from pool.task.attributes import Attribute, compute_digests, find_attributes, select_tensors
from pool.task.factory import (
    MAX_MODEL_NBYTES,
    ModelTooLargeError,
    TensorBytesLimit,
    build_model,
    make_task,
    task_metrics,
)
from pool.task.start import without_start_from
from pool.task.task import Task
from pool.telemetry.sinks import find_factory

Tensors = tuple[list[TensorSpec], list[TensorSpec]]  # trained ones, and those not trained (buffers, frozen parameters)

AVERAGED = ("float32", "float64")  # dtypes of parameters that can be averaged

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MemberCheck:
    """What the planner learns from a member's task and model. A member is one network of an ensemble."""

    tensors: Tensors
    measured: Measured
    constants: Mapping[str, str]  # digests of tensors that are neither parameters nor buffers, by path


@dataclass(frozen=True)
class MemberPlans:
    """The plans of all ensemble members, and what they have in common."""

    plans: tuple[Plan, ...]
    measured: Measured
    constants: tuple[Mapping[str, str], ...]
    on_meta: bool


def choose_devices(start: PlannerStart) -> tuple[tuple[str, ...], str]:
    """Returns the devices of the workers, and text about those that this machine lacks.

    The text is "" unless the run is only checked. Otherwise missing devices raise UnavailableError. Raises
    ConfigError.
    """
    config = start.config
    add_devices(config.testing.device_module)
    specs, workers = config.pool.devices, config.num_cpu_workers
    hidden = describe_hidden_cards(os.environ.get(VISIBLE_DEVICES))
    try:
        if "auto" in specs and not hidden and _cuda_count() == 0 and count_installed_cards() > 0:
            raise _unusable_cards_error()
        return resolve_devices(specs, _cuda_count(), hidden, cpu_workers=workers), ""
    except UnavailableError as error:
        if not start.only_check:
            raise
        return resolve_devices(specs, None, cpu_workers=workers), str(error)


def plan_run(start: PlannerStart) -> tuple[DataPlan, MemberPlans]:
    """Checks data and ensemble members, and returns their plans.

    Raises ConfigError if model, data and settings don't fit, and DataError if a file can't be used at all.
    """
    config = start.config
    _check_sinks(config)
    data = plan_data(start)
    members = _plan_members(start, data.schema)
    _check_average(config, members.plans)
    _check_gradient_dtype(config, members.plans)
    _check_best_metric(config, members.measured)
    _check_message_sizes(config, members.plans)
    return data, members


def _check_message_sizes(config: Config, plans: Sequence[Plan]) -> None:
    """Raises ConfigError if the members have more buckets or parameters than a message between processes can name."""
    num_buckets = sum(len(plan.buckets) for plan in plans)
    num_parameters = sum(len(plan.parameters) for plan in plans)
    if num_buckets > MAX_ITEMS:
        raise ConfigError(
            f"pool.bucket_mb: {config.pool.bucket_mb:g} makes {num_buckets} buckets of gradients, and a message can "
            f"name {MAX_ITEMS}: raise it"
        )
    if num_parameters > MAX_ITEMS:
        raise ConfigError(
            f"ensemble.members: {len(plans)} have {num_parameters} parameters, and at most {MAX_ITEMS} can be trained"
        )


def _check_sinks(config: Config) -> None:
    """Raises ConfigError for the first name of `run.sinks` that can't be loaded."""
    try:
        for name in config.run.sinks:
            find_factory(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _check_average(config: Config, plans: Sequence[Plan]) -> None:
    """Raises ConfigError if weights are to be averaged whose dtype has too few bits for small differences."""
    if config.train.average.kind is None:
        return
    for tensor in _all_parameters(plans):
        if tensor.dtype not in AVERAGED:
            raise ConfigError(
                f"train.average: parameter {tensor.name} is {tensor.dtype}; averages are of {' and '.join(AVERAGED)}"
            )


def _check_gradient_dtype(config: Config, plans: Sequence[Plan]) -> None:
    """Raises ConfigError if gradients are to be rounded whose parameters are not float32."""
    if config.train.gradient_dtype == "float32":
        return
    for tensor in _all_parameters(plans):
        if tensor.dtype != "float32":
            raise ConfigError(
                f"train.gradient_dtype: {config.train.gradient_dtype}: parameter {tensor.name} is {tensor.dtype}, and "
                "gradients of float32 parameters alone are rounded: make it float32, or set float32"
            )


def _all_parameters(plans: Sequence[Plan]) -> Iterator[Tensor]:
    return itertools.chain.from_iterable(plan.parameters for plan in plans)


def _check_best_metric(config: Config, metrics: Measured) -> None:
    """Raises ConfigError if `train.best_metric` is not measured in this run."""
    try:
        metrics.best(config.train.best_metric)
    except ValueError as error:
        raise ConfigError(f"train.best_metric: {error}") from None


def _plan_members(start: PlannerStart, schema: BatchSchema) -> MemberPlans:
    """Builds and checks the models of all ensemble members, and plans their memory.

    Raises ConfigError for the first member whose tensors or metrics differ from those of member 0.
    """
    configs = start.config.members
    on_meta = False
    try:
        with TensorBytesLimit(MAX_MODEL_NBYTES):
            checks = [_check_task(start, config, schema) for config in configs]
    except ModelTooLargeError:
        on_meta = True
        checks = [_check_task(start, config, schema, on_meta=True) for config in configs]
    plans = []
    for index, (config, check) in enumerate(zip(configs, checks, strict=True)):
        difference = _describe_difference(check.tensors, checks[0].tensors)
        if difference is not None:
            raise ConfigError(
                f"ensemble.member.{index}: {difference}; members have the same tensors, as one layout of memory holds "
                "them all: train each shape in a run of its own, and compare them by pool runs"
            )
        with name_member_in_errors(start.config, index):
            plateau_rule(config, check.measured)
        if check.measured != checks[0].measured:
            raise ConfigError(f"ensemble.member.{index}: its task has other metrics than that of member 0")
        prefix = member_prefix(index, len(configs))
        parameters, buffers = ([replace(spec, name=prefix + spec.name) for spec in specs] for specs in check.tensors)
        plans.append(plan_member(config, parameters, buffers))
    return MemberPlans(tuple(plans), checks[0].measured, tuple(check.constants for check in checks), on_meta)


def plan_member(config: Config, parameters: Sequence[TensorSpec], buffers: Sequence[TensorSpec]) -> Plan:
    """Plans the memory and the buckets of a member. A bucket is a set of parameters that are stepped together.

    If its optimizer steps all parameters together, they get one bucket, whatever pool.bucket_mb says.
    """
    plan = build_plan(parameters, buffers, _bucket_limits(config), split_tables=config.optimizer.name in ELEMENTWISE)
    if len(plan.buckets) > 1 and couples_all_parameters(config, shrink_plan(plan)):
        return build_plan(parameters, buffers, [sum(tensor.nbytes for tensor in parameters)])
    return plan


def _describe_difference(tensors: Tensors, tensors_of_first: Tensors) -> str | None:
    """Describes the first tensor in which a member differs from member 0; None if there is none."""
    pairs = itertools.zip_longest(itertools.chain(*tensors), itertools.chain(*tensors_of_first))
    for spec, spec_of_first in pairs:
        if spec != spec_of_first:
            return f"{_describe_spec(spec)} here, {_describe_spec(spec_of_first)} in member 0"
    return None


def _describe_spec(spec: TensorSpec | None) -> str:
    return "none" if spec is None else describe_tensor(spec.name, spec.dtype, spec.shape)


def _check_task(start: PlannerStart, config: Config, schema: BatchSchema, *, on_meta: bool = False) -> MemberCheck:
    """Builds and checks the task and the model of a member.

    `on_meta`: builds the model without values, on torch's meta device. Raises ConfigError for every error in the task's
    code, of which the log has the traceback.
    """
    model_section = config.model if start.checkpoint is None else without_start_from(config.model)
    try:
        task = make_task(config.task, model_section, config.loss, config.model_seed)
        task.check(schema)
        model = _build_model(config, task, on_meta=on_meta)
        check_model(model, schema)
        metrics = _layout_of_metrics(task, schema, averages=start.config.train.average.kind is not None)
        if config.train.metrics_every:
            _check_training_metrics(config, len(start.config.members), metrics)
        return MemberCheck(tensor_specs(model), metrics, compute_digests(_find_constants(task, model)))
    except (PoolError, DataError, ModelTooLargeError):
        raise
    except ValueError as error:
        raise ConfigError(str(error) or f"task: {config.task}: {format_error_with_location(error)}") from None
    except BaseException as error:
        log.exception("the task's model can't be built")
        raise ConfigError(f"task: {config.task}: {format_error_with_location(error)}") from None


def _check_training_metrics(config: Config, num_members: int, metrics: Measured) -> None:
    """Raises ValueError if metrics of training batches (`train.metrics_every`) can't be measured."""
    if not metrics.metrics:
        raise ValueError(f"train.metrics_every: the task {config.task} has no metrics: leave it out")
    count = num_members * config.max_batches_of_group * (1 + len(metrics.metrics))
    if count > MAX_GROUP_LOSSES:
        raise ValueError(
            f"train.metrics_every: the batches of a group have {count} losses and metrics; at most {MAX_GROUP_LOSSES} "
            "can be said at once: lower train.batches_per_group"
        )


def _build_model(config: Config, task: Task, *, on_meta: bool) -> nn.Module:
    """Builds the model of a task. Raises ConfigError if it can't be built without values where `on_meta` demands
    that."""
    try:
        return build_model(task, config.model_seed, on_meta=on_meta)
    except Exception as error:
        if not on_meta:
            raise
        log.exception("the model can't be built without numbers")
        raise ConfigError(
            f"task: {config.task}: {format_error_with_location(error)}; a model of more than "
            f"{MAX_MODEL_NBYTES >> 20} MiB is built without numbers (torch's device meta), so build_model may not read "
            "any from a tensor: make them with numpy"
        ) from None


def _find_constants(task: Task, model: nn.Module) -> list[Attribute]:
    """Returns the attributes of task and model that hold state. Raises ConfigError for a tensor on the meta device."""
    attributes = find_attributes(task, model)
    for attribute in select_tensors(attributes):
        if attribute.value.is_meta:
            raise ConfigError(
                f"task: {attribute.path} is a tensor that is neither parameter nor buffer, and a model of more than "
                f"{MAX_MODEL_NBYTES >> 20} MiB is built without numbers: make it a buffer (register_buffer), or make "
                "it in loss"
            )
    return attributes


def _layout_of_metrics(task: Task, schema: BatchSchema, *, averages: bool) -> Measured:
    """Returns the layout of a task's metrics. Raises ValueError for metrics that can't be used."""
    metrics = task_metrics(task, schema)
    try:
        return create_layout(metrics, schema.batch_size, averages=averages)
    except ValueError as error:
        raise ValueError(f"task: {type(task).__name__}.metrics: {error}") from None


def run(start: PlannerStart) -> Answer:
    """Plans a run. Returns the plan, or the reason why the run is refused."""
    answer: Answer
    try:
        answer = _plan(start)
    except PoolError as error:
        answer = Refused(show_real_paths(str(error)), error.exit_code)
    except DataError as error:
        code = EXIT_UNAVAILABLE if has_error_number(error, AWAY_ERRORS) else EXIT_DATA
        answer = Refused(show_real_paths(str(error)), code)
    crash_point("planner.before_answer")
    return answer


def _plan(start: PlannerStart) -> Accepted:
    """Plans a run. Raises PoolError or DataError if the run is refused."""
    config = start.config
    apply_arithmetic(own_kernels=config.pool.own_kernels, dense_products=config.pool.dense_products)
    devices, missing = choose_devices(start)
    data, members = plan_run(start)
    present = tuple(spec for spec in devices if not (missing and _is_missing(spec)))
    if start.checkpoint is not None:
        try_saved_state(config, members.plans, start.checkpoint, start.overrides)
    nbytes = snapshot_nbytes(config, members.plans, start.overrides, members.measured.metrics)
    exchange = choose_exchange(config, devices, members.plans, missing=missing)
    planned = Planned(
        schema=data.schema,
        plans=members.plans,
        measured=members.measured,
        num_chunks=data.num_chunks,
        devices=devices,
        device_names=tuple(
            _device_name(spec) if spec in present else f"{spec}: not in this machine" for spec in devices
        ),
        missing=missing,
        about_devices=tuple(_describe_device_choice(config, devices)),
        cards=describe_cards(present),
        state_nbytes=nbytes,
        fingerprint=numerics.reference(
            config,
            join_plans(members.plans),
            present,
            members.constants,
            steps_on=() if missing or optimizers_match_across_devices(config) else exchange.devices,
        ),
        rates=plan_learning_rates(start, members.plans),
        on_meta=members.on_meta,
        exchange=exchange,
    )
    sizes = {purpose: tuple(file.size for file in files) for purpose, files in data.files.items()}
    return Accepted(planned, sizes)


def _unusable_cards_error() -> UnavailableError:
    """Returns the error for a machine whose NVIDIA devices torch can't use.

    The user has such a device and would not expect to train on the CPU instead.
    """
    driver = f"NVIDIA's driver {read_driver_version()}".rstrip()
    return UnavailableError(
        f"pool.devices=auto: this machine has {driver}, and torch {torch.__version__} can't use its cards: "
        f'{_explain_unusable()}; to train on the CPU, say so: pool.devices = ["cpu", "cpu"]'
    )


def _explain_unusable() -> str:
    """Explains, as text, why torch can't use the machine's NVIDIA devices."""
    error_text = ""
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError) as error:
        error_text = shorten(str(error), MAX_MESSAGE_LENGTH)
    return explain_unusable_cards(error_text, torch.version.cuda)


def _is_missing(spec: str) -> bool:
    """Returns whether a device is a CUDA device that this machine does not have."""
    device = parse_device(spec)
    return device.kind == "cuda" and device.index >= _cuda_count()


def _cuda_count() -> int:
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _describe_device_choice(config: Config, devices: Sequence[str]) -> Iterator[str]:
    """Yields lines for the user about the choice of devices."""
    num_usable, num_installed = _cuda_count(), count_installed_cards()
    if "auto" in config.pool.devices and num_usable == 0:
        workers = f"{config.num_cpu_workers} CPU workers" if config.num_cpu_workers > 1 else "one CPU worker"
        yield f"pool.devices=auto: no CUDA device, so {workers}, by the number of cores and of batches in a step"
    reason = describe_hidden_cards(os.environ.get(VISIBLE_DEVICES))
    if num_usable == 0 and num_installed > 0 and not reason:
        reason = f": {_explain_unusable()}"
    line = describe_unused_devices(devices, num_usable, num_installed, reason)
    if line:
        yield line


def _device_name(spec: str) -> str:
    """Returns a device's name for the user, of an accelerator with its model and memory."""
    device = parse_device(spec)
    if not device.is_accelerator:
        return spec.partition("?")[0]
    properties = torch.get_device_module(device.kind).get_device_properties(device.index)
    return f"{spec}: {properties.name}, {properties.total_memory / (1 << 30):.0f} GiB"


def _bucket_limits(config: Config) -> list[int]:
    """Returns the size limits in bytes of the first bucket and of all later buckets."""
    return [int(config.pool.first_bucket_mb * (1 << 20)), int(config.pool.bucket_mb * (1 << 20))]
