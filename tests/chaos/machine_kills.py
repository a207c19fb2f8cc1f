"""Kills at random in runs on several machines; `python -m tests.chaos.machine_kills --kills 1000`.

Processes of any role on any machine, two coordinators at once, whole machines that come back, machines that sleep
longer than the others wait. Each run must end on every machine with the bits of one machine in which nothing happens.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pool.machines.leader import SILENCE_TIMEOUT
from pool.protocol.identity import COORDINATOR, FEEDER, WORKER
from tests.chaos.oracle import SETTINGS
from tests.support.machines import Machine, machines_of
from tests.support.processes import roles
from tests.support.runs import run_well
from tests.support.wait import wait_for

RUN: dict[str, Any] = {
    **SETTINGS,
    "train.steps": 60,
    "train.batches_per_step": 4,
    "train.checkpoint_every": 10,
    "pool.devices": ["fake:0?compute_ms=15", "fake:1?compute_ms=15"],
    "pool.restarts": 100,
    "pool.snapshot_steps": 3,
}
MEAN_GAP = 1.0  # seconds between two acts
ACTS = {"process": 6, "two coordinators": 2, "machine": 2, "sleep": 1}  # how likely each is
GIVE_UP = 200.0  # seconds until all are up again


class Killer:
    def __init__(self, folder: Path, kills: int, seed: int) -> None:
        self.done: Counter[str] = Counter()
        self._folder = folder
        self._kills = kills
        self._draw = random.Random(seed)
        self._reference = run_well(folder / "undisturbed", RUN).digest()

    def run(self) -> None:
        number = 0
        while self.done.total() < self._kills:
            number += 1
            (self._folder / str(number)).mkdir()
            with machines_of(
                self._folder / str(number) / "run", RUN, *([{}] * self._draw.choice((2, 2, 3)))
            ) as machines:
                self._one_run(machines)
                for machine in machines:
                    assert machine.end().digest() == self._reference, machine.out

    def _one_run(self, machines: list[Machine]) -> None:
        """Acts until all kills are done, or a machine has ended well."""

        def is_over() -> bool:
            return any(machine.process.poll() is not None for machine in machines)

        def all_are_up() -> bool:
            return all(COORDINATOR in roles(machine.process.pid).values() for machine in machines)

        while self.done.total() < self._kills:
            wait_for(lambda: is_over() or all_are_up(), "all coordinators", GIVE_UP)
            time.sleep(self._draw.expovariate(1 / MEAN_GAP))  # the moment is what is random
            if is_over():
                return
            (act,) = self._draw.choices(list(ACTS), list(ACTS.values()))
            self.done[act] += self._act(act, machines)

    def _act(self, act: str, machines: list[Machine]) -> bool:
        """Returns whether there was something to do it to."""
        machine = self._draw.choice(machines)
        if act == "process":
            return _kill(machine, self._draw.choice((COORDINATOR, COORDINATOR, WORKER, FEEDER)))
        if act == "two coordinators":
            return sum([_kill(each, COORDINATOR) for each in machines[:2]]) > 0
        if act == "machine":
            machine.process.kill()
            machine.process.wait()
            time.sleep(self._draw.choice((0.0, 0.5, 3.0)))
            machine.begin("--resume")
            return True
        everybody = [machine.process.pid, *roles(machine.process.pid)]
        for pid in everybody:
            _signal(pid, signal.SIGSTOP)
        time.sleep(self._draw.uniform(0.1, 1.3) * SILENCE_TIMEOUT)
        for pid in everybody[::-1]:
            _signal(pid, signal.SIGCONT)
        return True


def _kill(machine: Machine, role: str) -> bool:
    having = [pid for pid, its in roles(machine.process.pid).items() if its == role]
    return bool(having) and _signal(having[0], signal.SIGKILL)


def _signal(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.machine_kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="default: another each time")
    arguments = parser.parse_args()
    sys.stdout.write(f"seed {arguments.seed}\n")
    with tempfile.TemporaryDirectory() as folder:
        killer = Killer(Path(folder), arguments.kills, arguments.seed)
        killer.run()
    sys.stdout.write(f"{dict(killer.done)}: all with the same bits\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
