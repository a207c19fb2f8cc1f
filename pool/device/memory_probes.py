"""Tries whether two processes can share a device's memory, in the pool's own way: only its driver can say.

The two are `python -m pool.device.memory_probes DEVICE MODULE SOCKET`, and each holds one piece of memory.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict

import torch
from torch import Tensor

from pool.device.plugins import add_devices
from pool.device.proof import OPENED, WRITTEN
from pool.device.second_process import NotTriedError, Reply, SecondProcess, serve
from pool.device.shared_memory import Exported, shared_memory_of

FIRST, SECOND = 0x5A, 0xA5  # values
_NBYTES = 2 << 20
_BUSY = "busy or unavailable"


class MemoryProcess(SecondProcess):
    def __init__(self, device: str, module: str, deadline: float, program: str = "pool.device.memory_probes") -> None:
        """`module`: adds the kind of device to torch, if that has it not. Raises as `SecondProcess`, as all here."""
        super().__init__(program, device, module, deadline=deadline)

    def make(self) -> Exported:
        """Makes memory, of which the caller owns the descriptor."""
        text, fds = self.ask("make")
        return Exported(**{**json.loads(text), "fd": fds[0]})

    def open(self, exported: Exported) -> None:
        self.ask("open " + json.dumps(asdict(exported)), exported.fd)

    def fill(self, value: int) -> None:
        self.ask(f"fill {value}")

    def read(self) -> bytes:
        """Returns the first bytes, as they are now."""
        return bytes.fromhex(self.ask("read")[0])


def sharing_problems(device: str, module: str, deadline: float) -> dict[str, str]:
    """Returns by probe what has gone wrong, empty if nothing has; what was not come to is not in it. Raises
    NotTriedError if something else has gone wrong."""
    found: dict[str, str] = {}
    try:
        with MemoryProcess(device, module, deadline) as maker, MemoryProcess(device, module, deadline) as user:
            memory = maker.make()
            try:
                found.update(looks(maker, user, memory))
            finally:
                os.close(memory.fd)
    except RuntimeError as error:
        found[WRITTEN if OPENED in found else OPENED] = str(error)
    except NotTriedError as error:
        if _BUSY in str(error):
            raise NotTriedError(f"{error}; in exclusive mode it takes one process: nvidia-smi -c DEFAULT") from None
        raise
    return found


def looks(maker: MemoryProcess, user: MemoryProcess, memory: Exported) -> Iterator[tuple[str, str]]:
    """Yields each probe with what has gone wrong. `memory`: the maker's; its descriptor stays the caller's."""
    maker.fill(FIRST)
    user.open(memory)
    yield OPENED, difference(user.read(), FIRST)
    user.fill(SECOND)
    yield WRITTEN, difference(maker.read(), SECOND)


def difference(found: bytes, value: int) -> str:
    return "" if found == bytes([value]) * len(found) else f"it holds {found.hex()}"


# --- the other process ---


class MemoryHolder:
    """Holds a piece of a device's memory."""

    memory: Tensor

    def __init__(self, device: torch.device) -> None:
        shared = shared_memory_of(device.type)
        assert shared is not None
        self.device, self.shared = device, shared

    def open_device(self) -> None:
        torch.accelerator.set_device_index(self.device.index)
        torch.zeros(1, device=self.device).cpu()  # waits for it

    def answer(self, text: str, fds: list[int]) -> Reply:
        what, _, rest = text.partition(" ")
        if what == "make":
            self.memory = self.shared.allocate(self.device, _NBYTES)
            exported = self.shared.export(self.memory)
            return json.dumps(asdict(exported)), [exported.fd]
        if what == "read":
            return bytes(self.memory[:16].cpu().tolist()).hex(), ()
        if what == "open":
            self.memory = self.shared.open(self.device, Exported(**{**json.loads(rest), "fd": fds[0]}))
        else:
            self.memory.fill_(int(rest))
            torch.accelerator.synchronize(self.device)
        return "", ()


def main(made: Callable[[torch.device], MemoryHolder], device: str, module: str, fd: str) -> None:
    add_devices(module)
    holder = made(torch.device(device))
    serve(int(fd), holder.open_device, holder.answer)


if __name__ == "__main__":
    main(MemoryHolder, *sys.argv[1:])
