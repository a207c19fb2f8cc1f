"""Several machines of a run on one, to try: a supervisor each."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from pool.machines.key import write_key

_HOST = "127.0.0.1"


def run_all(machines: int, arguments: Sequence[str]) -> int:
    """Runs `pool train` with the arguments as each of the machines, and shows what the first one says. Returns its exit
    code. A signal to stop is handed on to it."""
    with tempfile.TemporaryDirectory(prefix="pool-machines-") as folder:
        key = Path(folder) / "run.key"
        write_key(key)
        with socket.socket() as free:
            free.bind((_HOST, 0))
            port = free.getsockname()[1]
        train = [sys.executable, "-m", "pool.process.become", str(os.getpid()), sys.executable, "-m", "pool", "train"]
        place = ["--machines", str(machines), "--first", f"{_HOST}:{port}", "--key", str(key)]
        processes: list[subprocess.Popen[bytes]] = []

        def hand_on(number: int, _: FrameType | None) -> None:
            processes[0].send_signal(number)

        for machine in range(machines):
            output = None if machine == 0 else subprocess.DEVNULL
            processes.append(
                subprocess.Popen(
                    [*train, *arguments, *place, "--machine", str(machine)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            )
        before = {number: signal.signal(number, hand_on) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            code = processes[0].wait()
            for process in processes[1:]:
                process.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return code if code >= 0 else 128 - code
