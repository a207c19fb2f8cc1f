"""Several machines of a run, each with a supervisor of its own, on this one."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pool.machines.key import write_key
from tests.support.paths import ROOT
from tests.support.runs import Ended, command


class Machine:
    """A machine of a run, started as its user would."""

    def __init__(self, dir: Path, settings: Mapping[str, Any], place: Sequence[str], machine: int) -> None:
        """`dir`: of the first machine; `place`: options that are the same for all."""
        self.dir = dir if machine == 0 else dir.with_name(f"{dir.name}-machine-{machine}")
        self._command = command(dir, settings, name="machines")
        config = Path(self._command[-1])
        own = config.with_name(f"{machine}-{config.name}")
        self._command[-1] = str(config.rename(own))
        self._command += ["--machine", str(machine), *place]
        self._output = self.dir.with_name(f"{self.dir.name}.out")
        self.begin()

    def begin(self, *arguments: str, **environment: str) -> None:
        with self._output.open("a") as output:
            self.process = subprocess.Popen(
                [*self._command, *arguments],
                cwd=ROOT,
                stdout=output,
                stderr=output,
                env={**os.environ, **environment},
            )

    @property
    def out(self) -> str:
        """What all its supervisors have said."""
        return self._output.read_text()

    def end(self, timeout: float = 250) -> Ended:
        """Waits for its end, which must be a good one."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end within {timeout} s: {self.out}") from None
        assert code == 0, self.out
        return Ended(self.dir, 0, self.out, "")


@contextlib.contextmanager
def machines_of(dir: Path, settings: Mapping[str, Any], *of_each: Mapping[str, Any]) -> Iterator[list[Machine]]:
    """Starts a machine for each of the settings that differ; they are dead afterwards."""
    key = dir.with_name("run.key")
    write_key(key)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        first = f"127.0.0.1:{free.getsockname()[1]}"
    place = ["--machines", str(len(of_each)), "--first", first, "--key", str(key)]
    machines = [Machine(dir, {**settings, **own}, place, machine) for machine, own in enumerate(of_each)]
    try:
        yield machines
    finally:
        for machine in machines:
            machine.process.kill()
            machine.process.wait()
