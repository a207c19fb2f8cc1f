"""Parses device names of the config: `cuda:N`, `cpu`, and two kinds for tests alone. Free of torch.

The kinds for tests are `fake:N`, a CPU worker that behaves like a device, and `NAME:N` of a module that adds a kind of
device to torch (`testing.device_module`). They take options after a question mark:
`fake:0?compute_ms=5&crash=3:backward`. Faults happen in a worker's first incarnation (life) only, so that its restart
can succeed, and once each: at that step, or at the first later step that the worker takes part in.

    compute_ms=M         every batch takes M milliseconds longer, without using the processor
    crash=STEP[:PHASE]   the process kills itself at that step, in forward, backward or between buckets
    hang=STEP[:PHASE]    the process stops moving
    nan=STEP[:MEMBER]    the loss, and so the gradient, is not a number; of all members, or of one
    oom=STEP             the process runs out of memory
    slow=STEP:MS         one batch of that step takes MS milliseconds longer
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args
from urllib.parse import parse_qsl

from pool.errors import ConfigError, UnavailableError

Phase = Literal["forward", "backward", "bucket"]
FaultKind = Literal["crash", "hang", "nan", "oom", "slow"]
ALLOWED = "allowed: cuda:N, cpu, auto"
LONGEST_PAUSE = 1e6  # greatest number of milliseconds in an option
_INDEX = re.compile(r"[0-9]{1,4}")


@dataclass(frozen=True)
class Fault:
    """A fault that a device for tests is told to have."""

    kind: FaultKind
    step: int
    phase: Phase = "forward"
    milliseconds: float = 0.0
    member: int | None = None  # the only member (network of an ensemble) with the fault; None: all

    def concerns(self, member: int) -> bool:
        """Returns whether the fault happens to this member (one network of an ensemble)."""
        return self.member is None or self.member == member


@dataclass(frozen=True)
class Device:
    """A device of a run: its kind, its number, and for tests what it is told to do."""

    kind: str  # cpu, fake, or torch's name of a kind of accelerator
    index: int = 0
    compute_ms: float = 0.0
    faults: tuple[Fault, ...] = ()

    @property
    def is_accelerator(self) -> bool:
        """Returns whether the device has memory of its own."""
        return self.kind not in ("cpu", "fake")

    @property
    def is_for_tests(self) -> bool:
        return self.kind not in ("cpu", "cuda")

    @property
    def torch_name(self) -> str:
        return f"{self.kind}:{self.index}" if self.is_accelerator else "cpu"


def check_devices(specs: Sequence[str], module: str) -> None:
    """Checks the value of pool.devices. Raises ConfigError with what is allowed.

    `module`: `testing.device_module`. The last part of its name is a kind of device that is allowed, too.
    """
    kinds = ("cpu", "cuda", "fake", module.rpartition(".")[2])
    for spec in specs:
        if spec != "auto" and parse_device(spec).kind not in kinds:
            raise _not_allowed(spec)
    if not specs:
        raise ConfigError(f"pool.devices: no device; {ALLOWED}")


def parse_device(text: str) -> Device:
    """Parses a device's name, of whatever kind. Raises ConfigError with what is allowed."""
    name, question, options = text.partition("?")
    kind, colon, number = name.partition(":")
    if kind == "cpu" and not colon and not question:
        return Device("cpu")
    if kind in ("", "cpu") or not _INDEX.fullmatch(number) or (question and kind == "cuda"):
        raise _not_allowed(text)
    compute_ms, faults = _parse_options(text, options)
    return Device(kind, int(number), compute_ms, faults)


def _not_allowed(text: str) -> ConfigError:
    return ConfigError(f"pool.devices: {text!r}: {ALLOWED}")


def _parse_options(text: str, options: str) -> tuple[float, tuple[Fault, ...]]:
    """Parses the options of a device for tests. Returns `compute_ms` and the faults. Raises ConfigError."""
    compute_ms = 0.0
    faults = []
    try:
        for key, value in parse_qsl(options, strict_parsing=bool(options)):
            if key == "compute_ms":
                compute_ms = _parse_milliseconds(value)
            elif key in get_args(FaultKind):
                faults.append(_parse_fault(cast(FaultKind, key), value))
            else:
                allowed = ", ".join(("compute_ms", *get_args(FaultKind)))
                raise ConfigError(f"pool.devices: {text!r}: unknown option {key}; allowed: {allowed}")
    except ValueError as error:
        raise ConfigError(f"pool.devices: {text!r}: {error}") from None
    return compute_ms, tuple(faults)


def _parse_fault(kind: FaultKind, value: str) -> Fault:
    """Parses the value of a fault option, such as 3:backward. Raises ValueError."""
    step, _, detail = value.partition(":")
    if not (step.isascii() and step.isdecimal() and len(step) <= 12):
        raise ValueError(f"{kind}={value}: a step is needed")
    if kind == "slow":
        return Fault(kind, int(step), milliseconds=_parse_milliseconds(detail))
    if kind == "nan" and _INDEX.fullmatch(detail):
        return Fault(kind, int(step), member=int(detail))
    if detail and (kind not in ("crash", "hang") or detail not in get_args(Phase)):
        raise ValueError(f"{kind}={value}: expected STEP or, for crash and hang, STEP:{'|'.join(get_args(Phase))}")
    return Fault(kind, int(step), cast(Phase, detail or "forward"))


def _parse_milliseconds(text: str) -> float:
    number = float(text)
    if not 0 <= number <= LONGEST_PAUSE:  # false for nan, too
        raise ValueError(f"{text} milliseconds; allowed: 0 to {LONGEST_PAUSE:,.0f}")
    return number


def resolve_devices(
    specs: Sequence[str], cuda_count: int | None, hidden: str = "", *, cpu_workers: int = 1
) -> tuple[str, ...]:
    """Returns the names of the devices, one for each worker. `auto` becomes all CUDA devices, or `cpu_workers` times
    cpu if there are none.

    `cuda_count`: number of CUDA devices, None if it is not known, and then names are not checked; `hidden`: a phrase
    about what hides devices. Raises UnavailableError.
    """
    resolved: list[str] = []
    for spec in specs:
        if spec == "auto" and cuda_count:
            resolved += [f"cuda:{i}" for i in range(cuda_count)]
            continue
        if spec == "auto":
            resolved += ["cpu"] * cpu_workers
            continue
        device = parse_device(spec)
        if device.kind == "cuda" and cuda_count is not None and device.index >= cuda_count:
            raise UnavailableError(f"pool.devices: {spec!r}: this machine shows {_describe_count(cuda_count)}{hidden}")
        resolved.append(spec)
    return tuple(resolved)


def _describe_count(cuda_count: int) -> str:
    if cuda_count == 0:
        return "no CUDA device"
    if cuda_count == 1:
        return "1 CUDA device (cuda:0)"
    return f"{cuda_count} CUDA devices (cuda:0 to cuda:{cuda_count - 1})"


def describe_unused_devices(devices: Sequence[str], cuda_count: int, cards: int, reason: str) -> str | None:
    """Returns a line for the user about the machine's CUDA devices that are not among `devices`. None if all are, or
    there is none.

    `cuda_count`: how many torch shows; `cards`: how many the machine has; `reason`: a phrase about what hides the
    others.
    """
    names = [f"cuda:{i}" for i in range(cuda_count)]
    unused = [name for name in names if name not in devices]
    if unused:
        return f"{', '.join(unused)}: not used by this run; pool.devices=auto takes all CUDA devices"
    if cards > cuda_count:
        return f"NVIDIA cards in this machine: {cards}; torch shows {cuda_count or 'none'} of them{reason}"
    return None


def describe_idle_devices(devices: int, batches_per_step: int, batches_per_group: int = 1) -> str | None:
    """Returns a line for the user if some devices have no group of batches to compute in a step, or in its last round.
    Else None.

    A group is consecutive batches that one device computes.
    """
    groups = -(-batches_per_step // batches_per_group)
    busy = groups % devices  # in the last round
    if busy == 0:
        return None
    full_rounds = groups - busy
    better = [count * batches_per_group for count in (full_rounds, full_rounds + devices) if count > 0]
    idle = f"{devices - busy} of {devices} devices"
    when = "stand idle" if groups < devices else "stand idle at the end of each step"
    work = "whole batches"
    if batches_per_group > 1:
        work = f"groups of {batches_per_group} batches (train.batches_per_group)"
    return (
        f"{idle} {when}: train.batches_per_step = {batches_per_step}, and a device takes {work}; set it to "
        f"{' or '.join(map(str, better))} (the size of a step changes what is learned: see to the learning rate, too)"
    )
