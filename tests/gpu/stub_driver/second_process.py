"""A second process on the machine with the stub driver, which makes memory or opens it: `python -m
tests.gpu.stub_driver.second_process SOCKET`. It does one thing for each message and answers."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import torch

from pool.device.cuda_memory import CudaMemory
from pool.kernels.cuda.launcher import CudaLauncher
from tests.gpu.stub_driver.machine import Machine

DEVICE = torch.device("cuda:0")
_LONGEST = 200  # bytes of a message


class SecondProcess:
    """The process, for its parent."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def make(self, nbytes: int) -> int:
        """Returns a descriptor of memory that the process has made."""
        return self._ask(f"make {nbytes}")[1][0]

    def open(self, fd: int, nbytes: int) -> None:
        self._ask(f"open {nbytes}", fd)
        os.close(fd)

    def fill(self, value: int) -> None:
        self._ask(f"fill {value}")

    def read(self) -> bytes:
        return bytes.fromhex(self._ask("read 0")[0])

    def _ask(self, text: str, *fds: int) -> tuple[str, list[int]]:
        socket.send_fds(self._channel, [text.encode()], fds)
        answer, received, _, _ = socket.recv_fds(self._channel, _LONGEST, 1)
        assert answer, "the other process has ended"
        return answer.decode(), received


@contextlib.contextmanager
def second_process() -> Iterator[SecondProcess]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.gpu.stub_driver.second_process", str(theirs.fileno())]
    with ours, subprocess.Popen(command, pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        yield SecondProcess(ours)
        ours.close()
        process.wait()


def serve(machine: Machine, channel: socket.socket) -> None:
    """Does what it is told until the channel is closed."""
    machine.use(DEVICE.index)
    shared, launcher, memory = CudaMemory(), CudaLauncher(DEVICE), torch.empty(0)
    while True:
        message, fds, _, _ = socket.recv_fds(channel, _LONGEST, 1)
        if not message:
            return
        what, number = message.decode().split()
        answer, sent = "done", list[int]()
        match what:
            case "make":
                memory = shared.allocate(DEVICE, int(number))
                sent = [shared.export(memory)]
            case "open":
                memory = shared.open(DEVICE, fds[0], int(number))
            case "fill":
                machine.fill(launcher, memory.data_ptr(), int(number))
            case "read":
                answer = machine.read(memory.data_ptr()).hex()
        socket.send_fds(channel, [answer.encode()], sent)
        for fd in sent:
            os.close(fd)


if __name__ == "__main__":
    _machine = Machine(devices=2, room=64 << 20)
    with _machine.in_place_of_torchs():
        serve(_machine, socket.socket(fileno=int(sys.argv[1])))
