"""Computes the run's fingerprint: everything that changes the bits that processes compute.

The planner makes the reference. Each process that computes compares its own fingerprint with the reference at its
start, because a worker that would compute other bits than other workers must not take part (I2).

The fingerprint leaves out what does not change bits: the number of workers, which devices of one kind they have, how
threads wait for one another, and the instruction set that our native code chose.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from pool.checkpoint.fingerprint import (
    ARITHMETIC,
    CONSTANTS,
    DEVICES,
    IMPLEMENTATION,
    NATIVE_CODE,
    UNKNOWN,
    Fingerprint,
    own_parts,
)
from pool.config.sections import OptimizerConfig
from pool.config.tree import Config
from pool.device.names import Device, parse_device
from pool.device.precision import DenseProducts, describe_changed_arithmetic
from pool.ensemble.execution_choice import RULE
from pool.ensemble.member import Member
from pool.errors import RunError
from pool.exchange.layout import member_prefix
from pool.exchange.plan import Plan
from pool.kernels.cuda.launcher import describe_kernels_of
from pool.protocol.identity import Peer
from pool.task.attributes import compute_digests

COORDINATOR_THREADS = "coordinator threads"
STEPS_ON = "torch's optimizer steps on"
_LIBRARIES = ("ATEN_", "CUBLAS_", "DNNL_", "GOMP_", "KMP_", "MKL_", "NVIDIA_TF32_", "OMP_", "ONEDNN_", "OPENBLAS_")
_ONLY_SPEED = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def reference(
    config: Config,
    plan: Plan,
    devices: tuple[str, ...],
    constants: Sequence[Mapping[str, str]] = (),
    *,
    steps_on: Sequence[str] = (),
) -> dict[str, str]:
    """Returns the fingerprint of a run, by name of each entry.

    `constants`: for each member (network of the run) digests of its tensors that are no weights, by path; `steps_on`:
    accelerators on which the optimizer steps, if it gives other bits there than on a CPU.
    """
    kinds = (device_kind(parse_device(spec), config.num_worker_threads(spec, len(devices))) for spec in devices)
    return {
        **_process(),
        DEVICES: "; ".join(sorted(set(kinds))),
        COORDINATOR_THREADS: str(config.num_coordinator_threads),
        **_dense_products(config, devices),
        **_arithmetic(config.pool.dense_products),
        **({"members": RULE} if config.ensemble.is_set else {}),
        "batches_per_step": str(config.train.batches_per_step),
        "batches_per_group": str(config.train.batches_per_group),
        "gradient_dtype": config.train.gradient_dtype,
        "buckets": _digest(json.dumps(asdict(plan)).encode()),
        **_constants(constants),
        "optimizer": "; ".join(dict.fromkeys(_optimizer(member.optimizer) for member in config.members)),
        **_steps_on(steps_on),
    }


def _steps_on(devices: Sequence[str]) -> dict[str, str]:
    """Returns an entry that names the kind of the devices on which the optimizer steps.

    If the kinds differ all devices are named, since it matters then which part of the weights lies on which device.
    """
    kinds = [device_kind(parse_device(spec), threads=0) for spec in devices]
    return {STEPS_ON: "; ".join(kinds if len(set(kinds)) > 1 else kinds[:1])} if kinds else {}


def _dense_products(config: Config, devices: tuple[str, ...]) -> dict[str, str]:
    """Returns pool.dense_products as an entry, if it is not the default and if a device of the run uses it."""
    chosen = config.pool.dense_products
    heeds = any(parse_device(spec).is_accelerator for spec in devices)
    return {"dense products": chosen} if heeds and chosen != "float32" else {}


def check_worker(fingerprint: Fingerprint, peer: Peer, device: Device) -> None:
    """Compares a worker's numerics with the run's fingerprint, once its threads are set. Raises RunError if it would
    compute other bits."""
    _check(fingerprint, peer, _process())
    kind = device_kind(device, torch.get_num_threads())
    if kind not in fingerprint[DEVICES].split("; "):
        raise _unlike(peer, DEVICES, kind, fingerprint[DEVICES])


def check_coordinator(fingerprint: Fingerprint, peer: Peer) -> None:
    """Compares the coordinator's numerics with the run's fingerprint, once its threads are set. Raises RunError if it
    would compute other bits."""
    _check(fingerprint, peer, {**_process(), COORDINATOR_THREADS: str(torch.get_num_threads())})


def check_steps_on(fingerprint: Fingerprint, peer: Peer, devices: Sequence[torch.device]) -> None:
    """Compares the devices of the coordinator with those of the run's fingerprint, once they are open. Raises RunError
    if the optimizer would compute other bits."""
    if STEPS_ON in fingerprint:
        _check(fingerprint, peer, {STEPS_ON: UNKNOWN, **_steps_on([str(device) for device in devices])})


def check_members(
    fingerprint: Fingerprint, peer: Peer, members: Sequence[Member], dense_products: DenseProducts
) -> None:
    """Compares members that a process has built with the run's fingerprint: their constants, and settings of torch that
    their code may have changed. Raises RunError if the process would compute other bits."""
    own = _constants([compute_digests(member.attributes) for member in members])
    _check(fingerprint, peer, {CONSTANTS: UNKNOWN, ARITHMETIC: UNKNOWN, **own, **_arithmetic(dense_products)})


def _arithmetic(dense_products: DenseProducts) -> dict[str, str]:
    """Returns torch's settings of arithmetic as an entry, or nothing if all are torch's defaults."""
    unusual = describe_changed_arithmetic(dense_products)
    return {ARITHMETIC: unusual} if unusual else {}


def _constants(of_members: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Returns the digests of the members' constants as one entry, or nothing if they have none."""
    texts = [
        f"{member_prefix(m, len(of_members))}{path} {digest}"
        for m, constants in enumerate(of_members)
        for path, digest in constants.items()
    ]
    return {CONSTANTS: ", ".join(texts)} if texts else {}


def device_kind(device: Device, threads: int) -> str:
    """Names what devices have in common that compute the same bits. `threads`: of a worker on the CPU."""
    if device.is_accelerator:
        properties = torch.get_device_module(device.kind).get_device_properties(device.index)
        computing = describe_kernels_of(torch.device(device.torch_name))
        return f"{properties.name}, compute capability {properties.major}.{properties.minor}, {computing}"
    return f"CPU with {threads} threads"


def _process() -> dict[str, str]:
    """Returns the entries that are the same in all processes of a run: torch, driver, CPU, environment, native code."""
    names = (name for name in sorted(os.environ) if name.startswith(_LIBRARIES) and name not in _ONLY_SPEED)
    return {
        "torch": f"{torch.__version__}, build {_digest(torch.__config__.show().encode())}",
        "GPU driver": _first_line(Path("/proc/driver/nvidia/version")),
        "CPU": f"{_cpu_model()}, {torch.backends.cpu.get_cpu_capability()}",
        "environment": " ".join(f"{name}={os.environ[name]}" for name in names),
        NATIVE_CODE: " ".join(_file_digest(module) for module in ("pool._native", "loader._native")),
    }


def _check(fingerprint: Fingerprint, peer: Peer, own: Fingerprint) -> None:
    """Compares a process's own entries with those of the fingerprint. Raises RunError for the first that differs."""
    for key, value in own.items():
        if value != fingerprint.get(key, UNKNOWN):
            raise _unlike(peer, key, value, fingerprint.get(key, UNKNOWN))


def _unlike(peer: Peer, key: str, own: str, planned: str) -> RunError:
    here, there = own_parts(key, own, planned), own_parts(key, planned, own)
    return RunError(f"{peer} would compute other bits than the run: {key}: {here} here, {there} in its fingerprint")


def _optimizer(optimizer: OptimizerConfig) -> str:
    """Describes an optimizer: its name, the version of its package, and the arguments that choose an implementation."""
    package = optimizer.name.partition(".")[0]
    chosen = [f"{key}={optimizer.args[key]}" for key in IMPLEMENTATION if key in optimizer.args]
    if package == "pool":  # the native code's digest stands for it
        return ", ".join([optimizer.name, *chosen])
    return ", ".join([f"{optimizer.name} ({_version_of(package)})", *chosen])


def _version_of(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:  # of another name than its package: to find it takes 0.2 s
        names = importlib.metadata.packages_distributions().get(package, [])
        return f"{names[0]} {importlib.metadata.version(names[0])}" if names else "version not known"


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return UNKNOWN


def _first_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()[0].strip()
    except (OSError, IndexError):
        return "none"


def _file_digest(module: str) -> str:
    spec = importlib.util.find_spec(module)
    assert spec is not None, module
    assert spec.origin is not None, module
    return _digest(Path(spec.origin).read_bytes())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
