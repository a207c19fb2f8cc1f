"""Several machines of a run on one, to try: a supervisor each."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType

from pool.machines.key import write_key

_HOST = "127.0.0.1"
GRACE = 15.0  # seconds: more than machines wait for one that is silent


def run_all(machines: int, arguments: Sequence[str]) -> int:
    """Runs `pool machines` with the arguments as each of the machines, and shows what the first one says, and the error
    of another that fails alone. Returns the exit code of the first. A signal to stop is handed on to it."""
    with tempfile.TemporaryDirectory(prefix="pool-machines-") as folder:
        key = Path(folder) / "run.key"
        write_key(key)
        with socket.socket() as free:
            free.bind((_HOST, 0))
            port = free.getsockname()[1]
        become = [sys.executable, "-m", "pool.process.become", str(os.getpid())]  # it ends with this process
        train = [*become, sys.executable, "-m", "pool", "machines"]
        place = ["--machines", str(machines), "--first", f"{_HOST}:{port}", "--key", str(key)]
        processes: list[subprocess.Popen[bytes]] = []

        def hand_on(number: int, _: FrameType | None) -> None:
            processes[0].send_signal(number)

        errors = [Path(folder) / f"{machine}.err" for machine in range(machines)]
        for machine in range(machines):
            with errors[machine].open("wb") as error:
                processes.append(
                    subprocess.Popen(
                        [*train, *arguments, *place, "--machine", str(machine)],
                        stdin=subprocess.DEVNULL,
                        stdout=None if machine == 0 else subprocess.DEVNULL,
                        stderr=None if machine == 0 else error,
                        start_new_session=True,
                    )
                )
        before = {number: signal.signal(number, hand_on) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            failed = _first_to_fail(processes)
            if failed is not None and not _all_end(processes, GRACE):  # elsewhere one would start it again
                if failed > 0:
                    sys.stderr.write(f"machine {failed}: {errors[failed].read_text()}")
                for process in processes:
                    process.send_signal(signal.SIGTERM)
            codes = [process.wait() for process in processes]
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return codes[0] if codes[0] >= 0 else 128 - codes[0]


def _first_to_fail(processes: Sequence[subprocess.Popen[bytes]]) -> int | None:
    """Waits until one has ended with an error, or all have ended."""
    left = dict(enumerate(processes))
    while left:
        _wait_for_one(left.values(), None)
        for machine in [machine for machine, process in left.items() if process.poll() is not None]:
            if left.pop(machine).returncode != 0:
                return machine
    return None


def _all_end(processes: Sequence[subprocess.Popen[bytes]], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while left := [process for process in processes if process.poll() is None]:
        if (rest := deadline - time.monotonic()) <= 0:
            return False
        _wait_for_one(left, rest)
    return True


def _wait_for_one(processes: Iterable[subprocess.Popen[bytes]], seconds: float | None) -> None:
    """Waits until one of them has ended, or so long."""
    with contextlib.ExitStack() as stack:
        descriptors = [os.pidfd_open(process.pid) for process in processes]
        for descriptor in descriptors:
            stack.callback(os.close, descriptor)
        select.select(descriptors, [], [], seconds)
