"""A GPU made of threads: importing this gives torch the devices fakegpu:0, fakegpu:1 ...

Its memory can't be touched by the host, its streams run late, what is freed is used again at once, errors stick. Which
stream is late can be chosen (`make_late`): so a race is found however fast threads are. The C++ is in `native/`; `make`
builds it. It becomes torch's accelerator: import it in a process of its own.

Settings (`configure`) and counters (`counters`) are those of `native/settings.h`; the environment variable FAKEGPU has
settings for the processes of a whole run: `delay_us=300,seed=7`. Those of its driver are `driver=7`, its version, and
`unshared=1`: it refuses to share memory.
"""

from __future__ import annotations

import atexit
import os
import types
from dataclasses import dataclass, fields

import torch
import torch.utils.backend_registration

from pool.device import shared_memory
from pool.device.proof import Setup
from pool.device.shared_memory import MemoryHandle
from tests.support.paths import FAKEGPU

NAME = "fakegpu"
_settings = dict(setting.split("=") for setting in os.environ.get("FAKEGPU", "").split(",") if setting)
_driver, _unshared = _settings.pop("driver", "1"), _settings.pop("unshared", "0") == "1"


@dataclass(frozen=True)
class Counters:
    """Since the process began; see native/settings.h."""

    kernels: int
    copies_in: int
    copies_out: int
    copies_within: int
    bytes_in: int
    bytes_out: int
    pageable_copies: int
    host_waits: int
    event_waits: int
    allocated_bytes: int

    def __sub__(self, before: Counters) -> Counters:
        return Counters(*(getattr(self, field.name) - getattr(before, field.name) for field in fields(self)))


def counters() -> Counters:
    return Counters(*torch.ops.fakegpu.counters())


def waits_by_thread() -> dict[int, int]:
    """How often each thread has waited for a device, by its native id."""
    pairs = torch.ops.fakegpu.waits_by_thread()
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def configure(**settings: int) -> None:
    for name, value in settings.items():
        torch.ops.fakegpu.configure(name, value)


def make_late(stream: torch.Stream | None) -> None:
    """This stream alone runs, from now on, only what somebody waits for, and that when all others have nothing to do
    and the host puts nothing anywhere: so whatever does not wait for it comes before. None: no stream does."""
    if stream is None:
        torch.ops.fakegpu.make_none_late()
    else:
        torch.ops.fakegpu.make_late(stream.device_index, stream.stream_id)


def host_register(address: int, nbytes: int, flags: int = 0) -> int:
    """As cudaHostRegister: 0, or the number of an error."""
    return int(torch.ops.fakegpu.host_register(address, nbytes, flags))


def host_unregister(address: int) -> None:
    torch.ops.fakegpu.host_unregister(address)


def mend() -> None:
    """Waits for all streams; a device that has broken down is sound again."""
    torch.ops.fakegpu.mend()


class SharedMemory:
    """A `pool.device.shared_memory.SharedMemory`."""

    def setup(self, device: torch.device) -> Setup:  # noqa: ARG002
        return Setup("fake GPU", _driver, mps=False)

    def allocate(self, device: torch.device, nbytes: int) -> torch.Tensor:
        memory = torch.empty(nbytes, dtype=torch.uint8, device=device)
        torch.ops.fakegpu.map_memory(memory)
        return memory

    def export(self, memory: torch.Tensor) -> MemoryHandle:
        if _unshared:
            raise RuntimeError("FAKEGPU error: not supported (export)")
        fd, offset, nbytes = torch.ops.fakegpu.export_memory(memory)
        return MemoryHandle(os.dup(fd), offset, nbytes)

    def open(self, device: torch.device, exported: MemoryHandle) -> torch.Tensor:
        memory: torch.Tensor = torch.ops.fakegpu.import_memory(
            exported.fd, exported.offset, exported.nbytes, device.index
        )
        os.close(exported.fd)
        return memory


def _manual_seed(seed: int) -> None:
    _seed_device(torch.accelerator.current_device_index(), seed)


def _manual_seed_all(seed: int) -> None:
    for device in range(torch.accelerator.device_count()):
        _seed_device(device, seed)


def _seed_device(device: int, seed: int, offset: int = 0) -> None:
    torch.ops.fakegpu.set_generator_state(device, (seed + (1 << 63)) % (1 << 64) - (1 << 63), offset)


def _get_rng_state(device: int) -> torch.Tensor:
    return torch.tensor(torch.ops.fakegpu.generator_state(device))


def _set_rng_state(state: torch.Tensor, device: int) -> None:
    _seed_device(device, *state.tolist())


class _Runtime:
    """Of CUDA's runtime library what the pool calls."""

    @staticmethod
    def cudaHostRegister(address: int, nbytes: int, flags: int) -> int:  # noqa: N802
        return host_register(address, nbytes, flags)


def _module() -> types.ModuleType:
    """What torch.cuda is for CUDA."""
    module = types.ModuleType(f"torch.{NAME}")
    names = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_is_in_bad_fork": lambda: False,
        "device_count": torch._C._accelerator_hooks_device_count,
        "current_device": torch.accelerator.current_device_index,
        "set_device": torch.accelerator.set_device_index,
        "synchronize": torch.accelerator.synchronize,
        "current_stream": torch.accelerator.current_stream,
        "Stream": torch.Stream,
        "Event": torch.Event,
        "manual_seed": _manual_seed,
        "manual_seed_all": _manual_seed_all,
        "get_rng_state": _get_rng_state,
        "set_rng_state": _set_rng_state,
        "cudart": _Runtime,
        "get_amp_supported_dtype": lambda: [torch.bfloat16],
        "get_device_properties": lambda index: types.SimpleNamespace(  # noqa: ARG005
            name="fake GPU", major=0, minor=0, total_memory=1 << 36
        ),
    }
    for name, value in names.items():
        setattr(module, name, value)
    return module


def _register() -> None:
    torch.ops.load_library(str(FAKEGPU))
    torch.utils.backend_registration.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, _module())
    torch.utils.backend_registration.generate_methods_for_privateuse1_backend(for_storage=True)
    for name, value in _settings.items():
        configure(**{name: int(value)})
    shared_memory.factories[NAME] = SharedMemory
    atexit.register(mend)  # no kernel runs while Python ends


_register()
