"""Device names: `cuda:N`, `cpu`, and `fake:N`, a CPU worker that behaves like a device for tests.

A fake device takes options after a question mark: `fake:0?compute_ms=5&crash=3:backward`. Faults happen in
a worker's first life only, so that its restart can succeed, and once each: at that step, or at the first
later one that the worker takes part in. Free of torch.

    compute_ms=M         every batch takes M milliseconds longer, without using the processor
    crash=STEP[:PHASE]   the process kills itself at that step, in forward, backward or between buckets
    hang=STEP[:PHASE]    it stops moving
    nan=STEP             the loss, and so the gradient, is not a number
    oom=STEP             it runs out of memory
    slow=STEP:MS         one batch of that step takes MS milliseconds longer
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args
from urllib.parse import parse_qsl

from pool.errors import ConfigError

Phase = Literal["forward", "backward", "bucket"]
FaultKind = Literal["crash", "hang", "nan", "oom", "slow"]
ALLOWED = "allowed: cuda:N, cpu, fake:N, auto"


@dataclass(frozen=True)
class Fault:
    kind: FaultKind
    step: int
    phase: Phase = "forward"
    milliseconds: float = 0.0


@dataclass(frozen=True)
class Device:
    kind: Literal["cuda", "cpu", "fake"]
    index: int = 0
    compute_ms: float = 0.0
    faults: tuple[Fault, ...] = ()

    @property
    def torch_name(self) -> str:
        return f"cuda:{self.index}" if self.kind == "cuda" else "cpu"


def parse_device(text: str) -> Device:
    """Raises ConfigError with what is allowed."""
    name, question, options = text.partition("?")
    kind, colon, number = name.partition(":")
    if kind == "cpu" and not colon and not question:
        return Device("cpu")
    if kind not in ("cuda", "fake") or not number.isdecimal() or (question and kind != "fake"):
        raise ConfigError(f"pool.devices: {text!r}: {ALLOWED}")
    compute_ms, faults = _options(text, options)
    return Device("cuda" if kind == "cuda" else "fake", int(number), compute_ms, faults)


def _options(text: str, options: str) -> tuple[float, tuple[Fault, ...]]:
    compute_ms = 0.0
    faults = []
    try:
        for key, value in parse_qsl(options, strict_parsing=bool(options)):
            if key == "compute_ms":
                compute_ms = float(value)
            elif key in get_args(FaultKind):
                faults.append(_fault(cast(FaultKind, key), value))
            else:
                allowed = ", ".join(("compute_ms", *get_args(FaultKind)))
                raise ConfigError(f"pool.devices: {text!r}: unknown option {key}; allowed: {allowed}")
    except ValueError as error:
        raise ConfigError(f"pool.devices: {text!r}: {error}") from None
    return compute_ms, tuple(faults)


def _fault(kind: FaultKind, value: str) -> Fault:
    step, _, rest = value.partition(":")
    if kind == "slow":
        return Fault(kind, int(step), milliseconds=float(rest))
    if rest and (kind not in ("crash", "hang") or rest not in get_args(Phase)):
        raise ValueError(f"{kind}={value}: expected STEP or, for crash and hang, STEP:{'|'.join(get_args(Phase))}")
    return Fault(kind, int(step), cast(Phase, rest or "forward"))


def resolve_devices(specs: Sequence[str], cuda_count: int | None) -> tuple[str, ...]:
    """`auto` becomes all CUDA devices, else two CPU workers. `cuda_count` None: not known, so none is checked."""
    resolved: list[str] = []
    for spec in specs:
        if spec == "auto":
            resolved += [f"cuda:{i}" for i in range(cuda_count or 0)] or ["cpu", "cpu"]
        else:
            device = parse_device(spec)
            if device.kind == "cuda" and cuda_count is not None and device.index >= cuda_count:
                raise ConfigError(f"pool.devices: {spec!r}: this machine has {cuda_count} CUDA devices")
            resolved.append(spec)
    if not resolved:
        raise ConfigError(f"pool.devices: no device; {ALLOWED}")
    return tuple(resolved)
