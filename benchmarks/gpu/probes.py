"""What only a driver can say of memory that processes share, tried with the pool's own way to share it and with
processes that are killed: can another process read and write it; does it outlive its maker, as a coordinator's death
asks; have the kernels of a killed process stopped writing when its pidfd says that it is dead, as the gradient slots of
a worker ask.

Each other process is `python -m benchmarks.gpu.probes DEVICE MODULE SOCKET`, and does what it is told over the socket.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict

import torch
from torch import Tensor

from benchmarks.gpu import card_copies
from benchmarks.gpu.busy import keep_busy
from benchmarks.gpu.machine import Machine
from benchmarks.gpu.report import Line
from benchmarks.rotated import ROOT
from pool.device.plugins import add_devices
from pool.device.proof import COPIED, OPENED, OUTLIVES, STOPPED, WRITTEN, Setup
from pool.device.shared_memory import Exported, shared_memory_of

NBYTES = 2 << 20
PATIENCE = 60  # seconds for an answer
LOOKS = 40  # at memory after a death
BETWEEN = 0.025  # seconds
FIRST, SECOND = 0x5A, 0xA5  # values
_NOTE = 1000  # bytes at most


class Other:
    """A process that uses a device."""

    def __init__(self, device: str, module: str) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(PATIENCE)
        command = [sys.executable, "-m", "benchmarks.gpu.probes", device, module, str(theirs.fileno())]
        self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE)
        self._pidfd = os.pidfd_open(self._process.pid)
        theirs.close()

    def setup(self) -> Setup | None:
        """What is tried there; None: it needs no proof."""
        found = json.loads(self._ask("setup")[0])
        return None if found is None else Setup(**found)

    def make(self) -> Exported:
        """Memory, of which the caller owns the descriptor."""
        note, fds = self._ask("make")
        return Exported(**{**json.loads(note), "fd": fds[0]})

    def open(self, exported: Exported) -> None:
        self._ask("open " + json.dumps(asdict(exported)), exported.fd)

    def fill(self, value: int) -> None:
        self._ask(f"fill {value}")

    def read(self) -> bytes:
        """The first bytes, as they are now."""
        return bytes.fromhex(self._ask("read")[0])

    def keep_busy(self) -> None:
        self._ask("busy")

    def kill(self) -> None:
        """Returns when its pidfd says that it is dead."""
        signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        select.select([self._pidfd], [], [])

    def end(self) -> None:
        self._channel.close()
        self._process.kill()
        self._process.communicate()
        os.close(self._pidfd)

    def _ask(self, text: str, *fds: int) -> tuple[str, list[int]]:
        """Raises RuntimeError with its last line if it has failed."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._channel, [text.encode()], fds)
            note, received, _, _ = socket.recv_fds(self._channel, _NOTE, 1)
            if note:
                return note.decode(), received
        self._process.kill()
        assert self._process.stderr is not None
        words = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        raise RuntimeError(words[-1] if words else "the process said nothing")


@contextlib.contextmanager
def process(device: str, module: str) -> Iterator[Other]:
    other = Other(device, module)
    try:
        yield other
    finally:
        other.end()


def setup_of(device: str, module: str) -> Setup | None:
    """Of a device that this process has not opened. Raises RuntimeError if its memory can't be shared."""
    with process(device, module) as other:
        return other.setup()


def problems(device: str, module: str) -> dict[str, str]:
    """By probe, what has gone wrong; empty if it has passed. What was not come to is not in it."""
    found: dict[str, str] = {}
    for probes, look in (((OPENED, WRITTEN, OUTLIVES), _shared), ((STOPPED,), _stopped)):
        try:
            found.update(look(device, module))
        except (RuntimeError, OSError) as error:
            found[next(probe for probe in probes if probe not in found)] = str(error)
    return found


def _shared(device: str, module: str) -> Iterator[tuple[str, str]]:
    with process(device, module) as maker, process(device, module) as user:
        memory = maker.make()
        try:
            maker.fill(FIRST)
            user.open(memory)
            yield OPENED, _difference(user.read(), FIRST)
            user.fill(SECOND)
            yield WRITTEN, _difference(maker.read(), SECOND)
            maker.kill()
            problem = _difference(user.read(), SECOND)
            with process(device, module) as later:
                later.open(memory)
                yield OUTLIVES, problem or _difference(later.read(), SECOND)
        finally:
            os.close(memory.fd)


def _stopped(device: str, module: str) -> Iterator[tuple[str, str]]:
    with process(device, module) as watcher, process(device, module) as victim:
        memory = watcher.make()
        watcher.fill(0)
        victim.open(memory)
        os.close(memory.fd)
        victim.keep_busy()
        deadline, first = time.monotonic() + PATIENCE / 2, watcher.read()
        while watcher.read() == first:
            if time.monotonic() > deadline:
                yield STOPPED, "not known: its kernels were not seen to run"
                return
            time.sleep(BETWEEN)
        victim.kill()
        died = time.monotonic()
        newest, changed = watcher.read(), 0.0
        for _ in range(LOOKS):
            time.sleep(BETWEEN)
            before, newest = newest, watcher.read()
            changed = time.monotonic() - died if newest != before else changed
        yield STOPPED, f"memory changed for {1e3 * changed:.0f} ms more" if changed else ""


def _difference(found: bytes, value: int) -> str:
    return "" if found == bytes([value]) * len(found) else f"it holds {found.hex()}"


def lines(machine: Machine) -> Iterator[Line]:
    copied = {COPIED: card_copies.problem(machine.kind, machine.module)} if machine.count > 1 else {}
    for probe, problem in (problems(str(machine.device), machine.module) | copied).items():
        yield Line(probe, problem or "yes", "yes", not problem)


# --- the other process ---


def serve(device: torch.device, channel: socket.socket) -> None:
    """Until the channel is closed."""
    shared = shared_memory_of(device.type)
    if shared is None:
        raise RuntimeError(f"two processes can't share the memory of {device}")
    torch.accelerator.set_device_index(device.index)
    torch.zeros(1, device=device)  # opens it
    memory: Tensor
    while True:
        note, fds, _, _ = socket.recv_fds(channel, _NOTE, 1)
        what, _, rest = note.decode().partition(" ")
        answer, sent = "done", list[int]()
        match what:
            case "setup":
                setup = shared.setup(device)
                answer = json.dumps(None if setup is None else asdict(setup))
            case "make":
                memory = shared.allocate(device, NBYTES)
                exported = shared.export(memory)
                answer, sent = json.dumps(asdict(exported)), [exported.fd]
            case "open":
                memory = shared.open(device, Exported(**{**json.loads(rest), "fd": fds[0]}))
            case "fill":
                memory.fill_(int(rest))
                torch.accelerator.synchronize(device)
            case "read":
                answer = bytes(memory[:16].cpu().tolist()).hex()
            case "busy":
                pass
            case _:
                return
        socket.send_fds(channel, [answer.encode()], sent)
        for fd in sent:
            os.close(fd)
        if what == "busy":  # after the answer: who asks looks on
            keep_busy(memory)


if __name__ == "__main__":
    add_devices(sys.argv[2])
    serve(torch.device(sys.argv[1]), socket.socket(fileno=int(sys.argv[3])))
