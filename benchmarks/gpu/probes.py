"""What only a driver can say of memory that processes share, tried with the pool's own way to share it and with
processes that are killed: can another process read and write it (`pool.device.memory_probes`); does it outlive its
maker, as a coordinator's death asks; have the kernels of a killed process stopped writing when its pidfd says that it
is dead, as the gradient slots of a worker ask.

Each other process is `python -m benchmarks.gpu.probes DEVICE MODULE SOCKET`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict

from benchmarks.gpu.busy import keep_busy
from benchmarks.gpu.machine import Machine
from benchmarks.gpu.report import Line
from pool.device import memory_probes
from pool.device.memory_probes import SECOND, MemoryHolder, MemoryProcess, describe_difference, run_sharing_tests
from pool.device.proof import COPIED, OPENED, OUTLIVES, STOPPED, WRITTEN, Setup
from pool.device.second_process import Reply
from pool.exchange.device.card_copies import find_copy_problem

PATIENCE = 60  # seconds for all that is asked of processes that begin together
LOOKS = 40  # at memory after a death
BETWEEN = 0.025  # seconds


class Other(MemoryProcess):
    def __init__(self, device: str, module: str) -> None:
        super().__init__(device, module, time.monotonic() + PATIENCE, "benchmarks.gpu.probes")
        self._pidfd = os.pidfd_open(self.pid)

    def setup(self) -> Setup:
        """What is tried there."""
        return Setup(**json.loads(self.request("setup")[0]))

    def keep_busy(self) -> None:
        self.send("busy")

    def kill(self) -> None:
        """Returns when its pidfd says that it is dead."""
        signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        select.select([self._pidfd], [], [])

    def __exit__(self, *_: object) -> None:
        os.close(self._pidfd)
        super().__exit__()


def setup_of(device: str, module: str) -> Setup:
    """Of a device that this process has not opened."""
    with Other(device, module) as other:
        return other.setup()


def problems(device: str, module: str) -> dict[str, str]:
    """By probe, what has gone wrong; empty if it has passed. What was not come to is not in it. Raises NotTriedError if
    something else has gone wrong."""
    found: dict[str, str] = {}
    for probes, look in (((OPENED, WRITTEN, OUTLIVES), _shared), ((STOPPED,), _stopped)):
        try:
            found.update(look(device, module))
        except RuntimeError as error:
            found[next(probe for probe in probes if probe not in found)] = str(error)
    return found


def copied(kind: str, module: str) -> str:
    """What has gone wrong between cards. Raises NotTriedError if something else has."""
    return find_copy_problem(kind, module, time.monotonic() + PATIENCE)


def _shared(device: str, module: str) -> Iterator[tuple[str, str]]:
    with Other(device, module) as maker, Other(device, module) as user:
        memory = maker.make()
        try:
            yield from run_sharing_tests(maker, user, memory)
            maker.kill()
            problem = describe_difference(user.read(), SECOND)
            with Other(device, module) as later:
                later.open(memory)
                yield OUTLIVES, problem or describe_difference(later.read(), SECOND)
        finally:
            os.close(memory.fd)


def _stopped(device: str, module: str) -> Iterator[tuple[str, str]]:
    with Other(device, module) as watcher, Other(device, module) as victim:
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


def lines(machine: Machine) -> Iterator[Line]:
    between = {COPIED: copied(machine.kind, machine.module)} if machine.count > 1 else {}
    for probe, problem in (problems(str(machine.device), machine.module) | between).items():
        yield Line(probe, problem or "yes", "yes", not problem)


# --- the other process ---


class BusyHolder(MemoryHolder):
    def answer(self, text: str, fds: list[int]) -> Reply:
        if text == "setup":
            return json.dumps(asdict(self.shared.setup(self.device))), ()
        if text == "busy":
            keep_busy(self.memory)
            return "", ()
        return super().answer(text, fds)


if __name__ == "__main__":
    memory_probes.main(BusyHolder, *sys.argv[1:])
