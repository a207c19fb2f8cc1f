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
        become = [sys.executable, "-m", "pool.process.become", str(os.getpid())]  # the program ends with this process
        command = [*become, sys.executable, "-m", "pool", "machines", *arguments]
        command += ["--machines", str(machines), "--first", f"{_HOST}:{_find_free_port()}", "--key", str(key)]
        processes: list[subprocess.Popen[bytes]] = []

        def forward_signal(number: int, _: FrameType | None) -> None:
            processes[0].send_signal(number)

        error_files = [Path(folder) / f"{machine}.err" for machine in range(machines)]
        for machine, error_file in enumerate(error_files):
            processes.append(_start_machine([*command, "--machine", str(machine)], machine, error_file))
        handlers = {number: signal.signal(number, forward_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            failed = _wait_for_failure(processes)
            # on real machines the user would start the failed one again
            if failed is not None and not _wait_for_all(processes, GRACE):
                if failed > 0:
                    sys.stderr.write(f"machine {failed}: {error_files[failed].read_text()}")
                for process in processes:
                    process.send_signal(signal.SIGTERM)
            codes = [process.wait() for process in processes]
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return codes[0] if codes[0] >= 0 else 128 - codes[0]


def _find_free_port() -> int:
    with socket.socket() as listener:
        listener.bind((_HOST, 0))
        port: int = listener.getsockname()[1]
    return port


def _start_machine(command: Sequence[str], machine: int, error_file: Path) -> subprocess.Popen[bytes]:
    """Starts the supervisor of a machine. Only the first machine writes to this process's output and errors."""
    with error_file.open("wb") as errors:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=None if machine == 0 else subprocess.DEVNULL,
            stderr=None if machine == 0 else errors,
            start_new_session=True,
        )


def _wait_for_failure(processes: Sequence[subprocess.Popen[bytes]]) -> int | None:
    """Waits until a process has ended with an error, or all have ended. Returns the index of the one that failed, or
    None."""
    running = dict(enumerate(processes))
    while running:
        _wait_for_one(running.values(), None)
        ended = [machine for machine, process in running.items() if process.poll() is not None]
        for machine in ended:
            if running.pop(machine).returncode != 0:
                return machine
    return None


def _wait_for_all(processes: Sequence[subprocess.Popen[bytes]], seconds: float) -> bool:
    """Waits until all processes have ended, at most `seconds`. Returns whether they have."""
    deadline = time.monotonic() + seconds
    while True:
        running = [process for process in processes if process.poll() is None]
        if not running:
            return True
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return False
        _wait_for_one(running, remaining)


def _wait_for_one(processes: Iterable[subprocess.Popen[bytes]], seconds: float | None) -> None:
    """Waits until at least one of the processes has ended, at most `seconds`. None: without a limit."""
    with contextlib.ExitStack() as stack:
        descriptors = [os.pidfd_open(process.pid) for process in processes]
        for descriptor in descriptors:
            stack.callback(os.close, descriptor)
        select.select(descriptors, [], [], seconds)
