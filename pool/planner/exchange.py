"""Chooses how processes exchange gradients and weights (`pool.exchange`): in host memory or on accelerators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    asked, workers = config.pool.exchange, [parse_device(spec) for spec in devices]
    if asked == "host" or (asked == "auto" and not any(worker.is_accelerator for worker in workers)):
        return HOST
    homes: Sequence[Device] = _homes(config, workers)
    home, names = homes[0], [worker.torch_name for worker in workers]
    alone = names == [home.torch_name]
    local = asked == "local" or (asked == "auto" and alone)
    problem = next(_problems(config, workers, home, plans, is_there=not missing, shared=not local), None)
    if asked == "local" and problem is None and not alone:
        problem = "it takes one worker, on the coordinator's device"
    if problem is not None:
        if asked == "auto":
            return Exchange(reason=problem)
        raise ConfigError(f"{KEY}: {asked} can't be had: {problem}; host is another choice, auto chooses")
    if local:
        return Exchange((home.torch_name,), ((0,),), missing, one_process=True)
    homes, verdict = (homes, CheckResult(proven=False, why=missing)) if missing else _tried(config, homes)
    if asked == "auto" and not verdict.proven:
        anyway = f' ({KEY} = "device" takes it all the same)' if len(homes) == 1 else ""
        return Exchange(reason=verdict.why + anyway)
    if not verdict.proven and not missing:  # a failing copy between devices may raise no error
        raise ConfigError(f"pool.coordinator_device: {ALL} can't be had: {verdict.why}; one device can, by its name")
    own = (tuple(i for i, name in enumerate(names) if name == home.torch_name) for home in homes)
    return Exchange(tuple(home.torch_name for home in homes), tuple(own), verdict.why)


def _tried(config: Config, homes: Sequence[Device]) -> tuple[Sequence[Device], CheckResult]:
    """Returns the coordinator's devices on which the exchange works, and the verdict on it.

    These are all of `homes`, or the first alone if several do not work and the config does not insist on them. Raises
    ConfigError.
    """
    verdict = _proof(config, homes)
    if verdict.proven or len(homes) == 1 or config.pool.coordinator_device == ALL:
        return homes, verdict
    one, alone = _proof(config, homes[:1]), f"{homes[0].torch_name} alone, as {verdict.why}"
    if one.proven:
        verdict = CheckResult(proven=True, why=f"{one.why}; {alone}" if one.why else alone)
    return homes[:1], verdict


def _proof(config: Config, homes: Sequence[Device]) -> CheckResult:
    """Tries the exchange on these devices, unless the user has asked for it on one device. Raises ConfigError for a
    device that this machine does not have."""
    devices = [torch.device(home.torch_name) for home in homes]
    there = torch.get_device_module(devices[0]).device_count()
    if gone := next((device for device in devices if device.index >= there), None):
        raise ConfigError(f"pool.coordinator_device: {str(gone)!r}: this machine has {there} {gone.type} devices")
    if config.pool.exchange == "device" and len(devices) == 1:
        return CheckResult(proven=True, why="")  # the user has asked for it
    return check_memory_sharing(devices, config.testing.device_module, config.pool.start_timeout / 2)


def optimizers_match_across_devices(config: Config) -> bool:
    """Returns whether all members' optimizers give the same bits on an accelerator as on a CPU."""
    return all(_is_own(load_class(member.optimizer.name, "optimizer.name")) for member in config.members)


def _is_own(optimizer: Any) -> bool:
    """Returns whether a class is one of this project's optimizers."""
    return isinstance(optimizer, type) and issubclass(optimizer, NativeOptimizer)


def _homes(config: Config, workers: Sequence[Device]) -> list[Device]:
    """Returns the devices of the coordinator, at least one. Raises ConfigError."""
    name = config.pool.coordinator_device
    accelerators = list({worker.torch_name: worker for worker in workers if worker.is_accelerator}.values())
    if name in ("", ALL):
        return accelerators or [workers[0]]
    try:
        home = parse_device(name)
    except ConfigError:
        home = None
    kinds = {"cuda", *(worker.kind for worker in accelerators)}
    if home is None or home.kind not in kinds or home.faults or home.compute_ms:
        raise ConfigError(
            f"pool.coordinator_device: {name!r}: allowed: an accelerator, as pool.devices names it, or {ALL}"
        )
    return [home]


def _problems(
    config: Config, workers: Sequence[Device], home: Device, plans: Sequence[Plan], *, is_there: bool, shared: bool
) -> Iterator[str]:
    """Yields the reasons, as text, why the run can't exchange on devices such as `home`.

    `is_there`: the machine has the device. `shared`: the exchange is between processes.
    """
    for worker in workers:
        if worker.kind != home.kind or not worker.is_accelerator:
            yield f"a worker is on {worker.torch_name}, which is no {_kind(home)}"
    if shared and is_there and get_shared_memory(home.kind) is None:
        yield f"two processes can't share the memory of {home.torch_name}{_remedy(home)}"
    for member in config.members:
        made = load_class(member.optimizer.name, "optimizer.name")
        if _is_own(made) and not made.on_devices:
            name = member.optimizer.name
            yield f"{name} steps on a CPU alone; pool.optim.Adam, AdamW, SparseAdam and torch's step there"
    for tensor in (tensor for plan in plans for tensor in plan.parameters):
        if tensor.dtype != "float32":
            yield f"parameter {tensor.name} is {tensor.dtype}"
    groups = Groups(config.train.batches_per_step, config.train.batches_per_group).groups_per_step
    if groups > MAX_LEAVES:
        yield f"a step has {groups} groups of batches, and {MAX_LEAVES} can be added up there"


def _remedy(home: Device) -> str:
    return " without cuda-bindings" if home.kind == "cuda" else ""


def _kind(home: Device) -> str:
    return f"{home.kind} device" if home.is_accelerator else "accelerator"
