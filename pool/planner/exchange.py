"""Chooses how processes exchange gradients and weights (`pool.exchange`): in host memory or on accelerators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from pool.config.tree import Config
from pool.device.names import Device, parse_device
from pool.device.shared_memory import get_shared_memory
from pool.errors import ConfigError
from pool.exchange.exchange_choice import HOST, Exchange
from pool.exchange.groups import Groups
from pool.exchange.plan import Plan
from pool.kernels.reduction import MAX_LEAVES
from pool.optim.names import load_class
from pool.optim.native import NativeOptimizer
from pool.planner.memory_sharing import CheckResult, check_memory_sharing

KEY = "pool.exchange"
ALL = "all"  # value of pool.coordinator_device: all devices of the workers


def choose_exchange(config: Config, devices: Sequence[str], plans: Sequence[Plan], *, missing: str = "") -> Exchange:
    """Returns the exchange that a run uses, with the reason for the choice.

    `devices`: of the workers. `plans`: of each ensemble member. `missing`: text about devices that this machine
    lacks, if the run is only checked. Raises ConfigError if the exchange that the config demands is impossible.
    """
    requested = config.pool.exchange
    workers = [parse_device(spec) for spec in devices]
    if requested == "host" or (requested == "auto" and not any(worker.is_accelerator for worker in workers)):
        return HOST
    owners: Sequence[Device] = _coordinator_devices(config, workers)
    worker_names = [worker.torch_name for worker in workers]
    has_only_worker = worker_names == [owners[0].torch_name]  # one worker, on the coordinator's device
    in_one_process = requested == "local" or (requested == "auto" and has_only_worker)
    problem = _find_problem(
        config, workers, owners[0], plans, is_present=not missing, between_processes=not in_one_process
    )
    if requested == "local" and problem is None and not has_only_worker:
        problem = "it takes one worker, on the coordinator's device"
    if problem is not None:
        if requested == "auto":
            return Exchange(reason=problem)
        raise ConfigError(f"{KEY}: {requested} can't be had: {problem}; host is another choice, auto chooses")
    if in_one_process:
        return Exchange((owners[0].torch_name,), ((0,),), missing, one_process=True)
    if missing:
        result = CheckResult(works=False, reason=missing)
    else:
        owners, result = _select_working_devices(config, owners)
    if requested == "auto" and not result.works:
        advice = f' ({KEY} = "device" takes it all the same)' if len(owners) == 1 else ""
        return Exchange(reason=result.reason + advice)
    if not result.works and not missing:  # a failing copy between devices may raise no error
        raise ConfigError(f"pool.coordinator_device: {ALL} can't be had: {result.reason}; one device can, by its name")
    owner_names = [owner.torch_name for owner in owners]
    workers_of_owners = [
        tuple(index for index, worker_name in enumerate(worker_names) if worker_name == owner_name)
        for owner_name in owner_names
    ]
    return Exchange(tuple(owner_names), tuple(workers_of_owners), result.reason)


def _select_working_devices(config: Config, owners: Sequence[Device]) -> tuple[Sequence[Device], CheckResult]:
    """Returns the coordinator's devices on which the exchange works, and the result of checking them.

    These are all of `owners`, or the first alone if several do not work and the config does not insist on them. Raises
    ConfigError.
    """
    result = _check_devices(config, owners)
    if result.works or len(owners) == 1 or config.pool.coordinator_device == ALL:
        return owners, result
    first_owner = owners[:1]
    result_of_first = _check_devices(config, first_owner)
    if not result_of_first.works:
        return first_owner, result
    reasons = [f"{first_owner[0].torch_name} alone, as {result.reason}"]
    if result_of_first.reason:
        reasons.insert(0, result_of_first.reason)
    return first_owner, CheckResult(works=True, reason="; ".join(reasons))


def _check_devices(config: Config, owners: Sequence[Device]) -> CheckResult:
    """Tries the exchange on these devices, unless the user has asked for it on one device. Raises ConfigError for a
    device that this machine does not have."""
    devices = [torch.device(owner.torch_name) for owner in owners]
    count = torch.get_device_module(devices[0]).device_count()
    for device in devices:
        if device.index >= count:
            raise ConfigError(
                f"pool.coordinator_device: {str(device)!r}: this machine has {count} {device.type} devices"
            )
    if config.pool.exchange == "device" and len(devices) == 1:
        return CheckResult(works=True, reason="")  # the user has asked for it
    return check_memory_sharing(devices, config.testing.device_module, config.pool.start_timeout / 2)


def optimizers_match_across_devices(config: Config) -> bool:
    """Returns whether all members' optimizers give the same bits on an accelerator as on a CPU."""
    return all(_is_native(load_class(member.optimizer.name, "optimizer.name")) for member in config.members)


def _is_native(optimizer: Any) -> bool:
    """Returns whether a class is one of this project's optimizers."""
    return isinstance(optimizer, type) and issubclass(optimizer, NativeOptimizer)


def _coordinator_devices(config: Config, workers: Sequence[Device]) -> list[Device]:
    """Returns the devices of the coordinator, at least one. Raises ConfigError."""
    name = config.pool.coordinator_device
    accelerators = list({worker.torch_name: worker for worker in workers if worker.is_accelerator}.values())
    if name in ("", ALL):
        return accelerators or [workers[0]]
    try:
        device = parse_device(name)
    except ConfigError:
        device = None
    kinds = {"cuda", *(worker.kind for worker in accelerators)}
    if device is None or device.kind not in kinds or device.faults or device.compute_ms:
        raise ConfigError(
            f"pool.coordinator_device: {name!r}: allowed: an accelerator, as pool.devices names it, or {ALL}"
        )
    return [device]


def _find_problem(
    config: Config,
    workers: Sequence[Device],
    owner: Device,
    plans: Sequence[Plan],
    *,
    is_present: bool,
    between_processes: bool,
) -> str | None:
    """Returns the first reason, as text, why the run can't exchange on devices such as `owner`; None if it can.

    `is_present`: the machine has the device. `between_processes`: workers and coordinator are different processes.
    """
    for worker in workers:
        if worker.kind != owner.kind or not worker.is_accelerator:
            return f"a worker is on {worker.torch_name}, which is no {_device_kind(owner)}"
    if between_processes and is_present and get_shared_memory(owner.kind) is None:
        remedy = " without cuda-bindings" if owner.kind == "cuda" else ""
        return f"two processes can't share the memory of {owner.torch_name}{remedy}"
    for member in config.members:
        optimizer = load_class(member.optimizer.name, "optimizer.name")
        if _is_native(optimizer) and not optimizer.on_devices:
            name = member.optimizer.name
            return f"{name} steps on a CPU alone; pool.optim.Adam, AdamW, SparseAdam and torch's step there"
    for plan in plans:
        for tensor in plan.parameters:
            if tensor.dtype != "float32":
                return f"parameter {tensor.name} is {tensor.dtype}"
    num_groups = Groups(config.train.batches_per_step, config.train.batches_per_group).groups_per_step
    if num_groups > MAX_LEAVES:
        return f"a step has {num_groups} groups of batches, and {MAX_LEAVES} can be added up there"
    return None


def _device_kind(device: Device) -> str:
    return f"{device.kind} device" if device.is_accelerator else "accelerator"
