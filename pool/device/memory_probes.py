"""Tests whether two processes can share a device's memory in the pool's own way, which only the driver can tell.

The two processes are `python -m pool.device.memory_probes DEVICE MODULE SOCKET`. Each holds one block of memory.
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
from pool.device.second_process import Reply, SecondProcess, serve
from pool.device.shared_memory import MemoryHandle, get_shared_memory

FIRST, SECOND = 0x5A, 0xA5  # values of the bytes that are written
_NBYTES = 2 << 20


class MemoryProcess(SecondProcess):
    """A second process that holds one block of a device's memory: its own, or that of another such process."""

    def __init__(self, device: str, module: str, deadline: float, program: str = "pool.device.memory_probes") -> None:
        """Starts the process. Raises as `SecondProcess`, as all methods do.

        `module`: adds the kind of device to torch, where torch does not know it; `deadline`: a time of time.monotonic.
        """
        super().__init__(program, device, module, deadline=deadline)

    def make(self) -> MemoryHandle:
        """Allocates memory in the process and exports it. The caller owns the descriptor."""
        text, fds = self.request("make")
        return MemoryHandle(**{**json.loads(text), "fd": fds[0]})

    def open(self, exported: MemoryHandle) -> None:
        """Maps memory in the process that another one has exported."""
        self.request("open " + json.dumps(asdict(exported)), exported.fd)

    def fill(self, value: int) -> None:
        """Sets all bytes of the process's memory to `value`."""
        self.request(f"fill {value}")

    def read(self) -> bytes:
        """Returns the first bytes of the process's memory as they are now."""
        return bytes.fromhex(self.request("read")[0])


def find_sharing_problems(device: str, module: str, deadline: float) -> dict[str, str]:
    """Tries to share memory between two processes. Returns the problem that each test found, empty for a test that has
    passed.

    A test that was not reached is left out. Raises NotTriedError if something other than sharing went wrong.
    """
    problems: dict[str, str] = {}
    try:
        with MemoryProcess(device, module, deadline) as maker, MemoryProcess(device, module, deadline) as user:
            memory = maker.make()
            try:
                problems.update(run_sharing_tests(maker, user, memory))
            finally:
                os.close(memory.fd)
    except RuntimeError as error:
        problems[WRITTEN if OPENED in problems else OPENED] = str(error)
    return problems


def run_sharing_tests(maker: MemoryProcess, user: MemoryProcess, memory: MemoryHandle) -> Iterator[tuple[str, str]]:
    """Runs the tests and yields each with its problem, empty if it has passed. `memory`: exported by `maker`. Its
    descriptor stays the caller's."""
    maker.fill(FIRST)
    user.open(memory)
    yield OPENED, describe_difference(user.read(), FIRST)
    user.fill(SECOND)
    yield WRITTEN, describe_difference(maker.read(), SECOND)


def describe_difference(data: bytes, value: int) -> str:
    """Describes bytes that are not all `value`, for the user. Empty if they are."""
    return "" if data == bytes([value]) * len(data) else f"it holds {data.hex()}"


# --- the second process ---


class MemoryHolder:
    """Holds a block of a device's memory in the second process and answers requests."""

    memory: Tensor

    def __init__(self, device: torch.device) -> None:
        shared = get_shared_memory(device.type)
        assert shared is not None
        self.device, self.shared = device, shared

    def open_device(self) -> None:
        torch.accelerator.set_device_index(self.device.index)
        torch.zeros(1, device=self.device).cpu()  # waits until the device has computed

    def answer(self, text: str, fds: list[int]) -> Reply:
        """Carries out a request (`make`, `open`, `fill`, `read`). Returns the reply's text and descriptors."""
        command, _, argument = text.partition(" ")
        if command == "make":
            self.memory = self.shared.allocate(self.device, _NBYTES)
            exported = self.shared.export(self.memory)
            return json.dumps(asdict(exported)), [exported.fd]
        if command == "read":
            return bytes(self.memory[:16].cpu().tolist()).hex(), ()
        if command == "open":
            self.memory = self.shared.open(self.device, MemoryHandle(**{**json.loads(argument), "fd": fds[0]}))
        else:
            self.memory.fill_(int(argument))
            torch.accelerator.synchronize(self.device)
        return "", ()


def main(make_holder: Callable[[torch.device], MemoryHolder], device: str, module: str, fd: str) -> None:
    add_devices(module)
    holder = make_holder(torch.device(device))
    serve(int(fd), holder.open_device, holder.answer)


if __name__ == "__main__":
    main(MemoryHolder, *sys.argv[1:])
