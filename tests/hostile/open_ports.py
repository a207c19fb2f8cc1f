"""Strangers at every port that a run on two machines has open: random bytes, connections that say nothing, requests in
plain ZeroMQ and with another key, and what the second machine has said itself, recorded and said again.

The machines must not notice: both end with the weights of one machine, without a word.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zmq
from zmq.utils import z85

from pool.machines.key import write_key
from tests.hostile.attack import assert_said_well
from tests.support.machines import Machine
from tests.support.processes import children
from tests.support.runs import TOY, run_well, steps_done
from tests.support.wait import wait_for

SETTINGS: dict[str, Any] = {
    **TOY,
    "train.steps": 160,
    "train.batches_per_step": 4,
    "train.checkpoint_every": 40,
    "pool.devices": ["fake:0?compute_ms=20"],
    "pool.restarts": 20,
}
HOST = "127.0.0.1"
LISTENS = "0A"  # in /proc/net/tcp
MOST_IDLE = 100  # connections


class Recorder:
    """Passes a machine's connections to the first machine on, and keeps what it says."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        self.said: list[bytes] = []  # of each connection, so far
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                machine, _ = self._listener.accept()
                threading.Thread(target=self._pass_on, args=(machine,), daemon=True).start()

    def _pass_on(self, machine: socket.socket) -> None:
        number = len(self.said)
        self.said.append(b"")
        with contextlib.suppress(OSError), machine, socket.create_connection((HOST, self._to)) as first:
            threading.Thread(target=_pump, args=(first, machine), daemon=True).start()
            while data := machine.recv(1 << 16):
                self.said[number] += data
                first.sendall(data)

    def close(self) -> None:
        self._listener.close()


def _pump(source: socket.socket, to: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            to.sendall(data)
        to.close()


class Stranger:
    """Does something to one port after the other."""

    def __init__(self, rng: random.Random, recorder: Recorder) -> None:
        self._rng = rng
        self._recorder = recorder
        self._context = zmq.Context[zmq.Socket[bytes]]()
        self._idle: list[socket.socket] = []
        self._ways: tuple[Callable[[int], None], ...] = (
            self._random_bytes,
            self._greeting,
            self._stay,
            self._say_again,
            self._plain,
            self._other_key,
        )

    def knock(self, port: int) -> None:
        # The port may be closed by now, and a connection is ended at any time: a socket without one can't send.
        with contextlib.suppress(OSError, zmq.Again):
            self._rng.choice(self._ways)(port)

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._context.destroy(linger=0)

    def _random_bytes(self, port: int) -> None:
        self._send(port, self._rng.randbytes(self._rng.randrange(100_000)))

    def _greeting(self, port: int) -> None:
        """ZMTP 3.1, with CURVE, and then nonsense."""
        greeting = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)
        self._send(port, greeting + self._rng.randbytes(self._rng.randrange(300)))

    def _stay(self, port: int) -> None:
        self._idle.append(_connected(port))
        if len(self._idle) > MOST_IDLE:
            self._idle.pop(0).close()

    def _say_again(self, port: int) -> None:
        if self._recorder.said:
            said = self._rng.choice(self._recorder.said)
            self._send(port, said[: self._rng.randrange(len(said) + 1)] if self._rng.random() < 0.5 else said)

    def _plain(self, port: int) -> None:
        self._message(port, keys=False)

    def _other_key(self, port: int) -> None:
        self._message(port, keys=True)

    def _message(self, port: int, *, keys: bool) -> None:
        with self._context.socket(zmq.DEALER) as dealer:
            dealer.linger = 50  # milliseconds
            if keys:
                dealer.curve_publickey, dealer.curve_secretkey = zmq.curve_keypair()
                dealer.curve_serverkey = z85.encode(self._rng.randbytes(32))
            dealer.connect(f"tcp://{HOST}:{port}")
            message = [self._rng.randbytes(self._rng.randrange(1000)) for _ in range(3)]
            dealer.send_multipart(message, flags=zmq.NOBLOCK)

    def _send(self, port: int, data: bytes) -> None:
        with _connected(port) as connection:
            connection.sendall(data)


def _connected(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), timeout=1.0)


def strangers_at_all_ports(rng: random.Random, folder: Path) -> None:
    expected = run_well(folder / "one", SETTINGS).digest()
    key = folder / "run.key"
    write_key(key)
    with socket.create_server((HOST, 0)) as free:
        first = int(free.getsockname()[1])
    recorder = Recorder(first)
    stranger = Stranger(rng, recorder)
    places = [["--machines", "2", "--first", f"{HOST}:{port}", "--key", str(key)] for port in (first, recorder.port)]
    machines = [Machine(folder / "run", SETTINGS, place, number) for number, place in enumerate(places)]
    knocked: set[int] = set()
    try:
        wait_for(lambda: steps_done(machines[0].dir) > 0, "the first step", 200)
        while machines[0].process.poll() is None:
            for port in open_ports([machine.process.pid for machine in machines]):
                stranger.knock(port)
                knocked.add(port)
        ended = [machine.end() for machine in machines]
    finally:
        stranger.close()
        recorder.close()
        for machine in machines:
            machine.process.kill()
            machine.process.wait()
    assert len(knocked) >= 4, "two supervisors' and two coordinators' ports"
    assert [each.digest() for each in ended] == [expected] * 2
    for each in ended:
        assert_said_well(each)
        assert "restarted" not in each.out, each.out


def open_ports(supervisors: list[int]) -> Iterator[int]:
    """Ports on which processes of these supervisors, or they themselves, take connections."""
    sockets: set[str] = set()
    for pid in [pid for supervisor in supervisors for pid in (supervisor, *_descendants(supervisor))]:
        with contextlib.suppress(OSError):  # it may end
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    sockets.add(str(descriptor.readlink()))
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_, inode = line.split()[:10]
        if state == LISTENS and f"socket:[{inode}]" in sockets:
            yield int(local.rpartition(":")[2], 16)


def _descendants(pid: int) -> Iterator[int]:
    for child in children(pid):
        yield child
        yield from _descendants(child)


ATTACKS = (strangers_at_all_ports,)
