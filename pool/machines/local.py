"""Runs several machines of a run as processes on one machine, to try them out: a supervisor each."""

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
GRACE = 15.0  # seconds: longer than machines wait for a silent one


def run_all(machines: int, arguments: Sequence[str]) -> int:
    """Runs `pool machines` with the arguments once for each of `machines` machines, and waits for all to end.

    Shows the output of the first machine, and the errors of another machine that fails alone. Signals to stop are
    passed on to the first machine. Returns its exit code.
    """
    with tempfile.TemporaryDirectory(prefix="pool-machines-") as folder:
        key = Path(folder) / "run.key"
        write_key(key)
        with socket.socket() as free:
            free.bind((_HOST, 0))
            port = free.getsockname()[1]
        become = [sys.executable, "-m", "pool.process.become", str(os.getpid())]  # the program ends with this process
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
            if failed is not None and not _all_end(processes, GRACE):  # on real machines the user would start it again
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
    """Waits until a process has ended with an error, or all have ended. Returns the index of the one that failed, or
    None."""
    left = dict(enumerate(processes))
    while left:
        _wait_for_one(left.values(), None)
        for machine in [machine for machine, process in left.items() if process.poll() is not None]:
            if left.pop(machine).returncode != 0:
                return machine
    return None


def _all_end(processes: Sequence[subprocess.Popen[bytes]], seconds: float) -> bool:
    """Waits until all processes have ended, at most `seconds`. Returns whether they have."""
    deadline = time.monotonic() + seconds
    while left := [process for process in processes if process.poll() is None]:
        if (rest := deadline - time.monotonic()) <= 0:
            return False
        _wait_for_one(left, rest)
    return True


def _wait_for_one(processes: Iterable[subprocess.Popen[bytes]], seconds: float | None) -> None:
    """Waits until at least one of the processes has ended, at most `seconds`. None: without a limit."""
    with contextlib.ExitStack() as stack:
        descriptors = [os.pidfd_open(process.pid) for process in processes]
        for descriptor in descriptors:
            stack.callback(os.close, descriptor)
        select.select(descriptors, [], [], seconds)
