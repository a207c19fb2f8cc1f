"""Kills processes of real runs at random; `python -m tests.chaos.kills --kills 1000`.

Every role is as likely as any other, but for the planner, which there is only while a run is prepared.
A run whose supervisor was killed is resumed. Each run must end unharmed (`oracle`); when a run ends before all kills
are done, another one begins.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pool.protocol.identity import COORDINATOR, FEEDER, FORKSERVER, PLANNER, SUPERVISOR, WORKER
from tests.chaos.oracle import (
    SETTINGS,
    Undisturbed,
    assert_unharmed,
    check_nothing_left_outside,
    left_outside,
    shared_memory,
    undisturbed,
)
from tests.support.paths import ROOT
from tests.support.processes import roles
from tests.support.runs import Ended, command
from tests.support.wait import wait_for

RUN: dict[str, Any] = {
    **SETTINGS,
    "train.steps": 60,
    "train.checkpoint_every": 10,
    "pool.devices": ["fake:0?compute_ms=15", "fake:1?compute_ms=15"],
    "pool.restarts": 100,
}
ROLES = (SUPERVISOR, FORKSERVER, PLANNER, COORDINATOR, FEEDER, WORKER)
MEAN_GAP = 0.5  # seconds between two kills, beside the wait for somebody who has the role
LIFE = 0.3  # seconds at most that who was waited for lives longer
MANY = 200  # kills among which each role must be
GIVE_UP = 900.0  # seconds for one run


class Killer:
    """Kills until `kills` are done, over as many runs as that takes."""

    def __init__(self, folder: Path, reference: Undisturbed, kills: int, seed: int) -> None:
        self.done: Counter[str] = Counter()
        self.runs = 0
        self._folder = folder
        self._reference = reference
        self._kills = kills
        self._random = random.Random(seed)

    def run(self) -> None:
        while self.done.total() < self._kills:
            self.runs += 1
            self._one_run(self._folder / f"run-{self.runs}")

    def _one_run(self, dir: Path) -> None:
        """Raises AssertionError if it does not end as the undisturbed one."""
        deadline = time.monotonic() + GIVE_UP
        killed = True
        while killed:
            assert time.monotonic() < deadline, f"{dir} has not ended within {GIVE_UP:g} s"
            process = subprocess.Popen(
                command(dir, RUN, "--resume"), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            try:
                killed = self._kill_until_the_supervisor_is_dead(process, deadline)
            finally:
                process.kill()
            out, err = process.communicate()
        assert_unharmed(Ended(dir, process.returncode, out, err), self._reference, RUN)

    def _kill_until_the_supervisor_is_dead(self, process: subprocess.Popen[str], deadline: float) -> bool:
        """Whether we killed it: then there is something to resume. Without kills left it is only waited for."""
        while self.done.total() < self._kills:
            if self._ended_within(process, self._random.expovariate(1 / MEAN_GAP)):
                return False
            role = self._random.choice(ROLES)
            if self._wait_for(role, process, deadline) and self._kill(role, process) and role == SUPERVISOR:
                return process.wait() == -signal.SIGKILL  # unless it had just come to its end
        assert self._ended_within(process, deadline - time.monotonic()), "the run does not end"
        return False

    def _wait_for(self, role: str, process: subprocess.Popen[str], deadline: float) -> bool:
        """So that a start gets through now and then; and then a moment longer, for not all to die new-born."""
        while role not in (there := living(process).values()):
            if (role == PLANNER and WORKER in there) or self._ended_within(process, 0.01):
                return False  # there is a planner at the start only
            assert time.monotonic() < deadline, f"no {role} any more"
        return not self._ended_within(process, self._random.uniform(0, LIFE))

    def _kill(self, role: str, process: subprocess.Popen[str]) -> bool:
        """False if nobody has the role any more. Afterwards the killed one is gone, but for the supervisor."""
        having = [pid for pid, its in living(process).items() if its == role]
        if not having or process.poll() is not None:
            return False
        victim = self._random.choice(sorted(having))
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:  # it has ended by itself, as a planner does
            return False
        self.done[role] += 1
        if role != SUPERVISOR:
            wait_for(lambda: victim not in living(process) or process.poll() is not None, f"{role} gone")
        return True

    @staticmethod
    def _ended_within(process: subprocess.Popen[str], seconds: float) -> bool:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True


def living(process: subprocess.Popen[str]) -> dict[int, str]:
    """Roles of a run's processes by pid."""
    return {**roles(process.pid), process.pid: SUPERVISOR}


def kill_randomly(folder: Path, kills: int, seed: int) -> Killer:
    """Raises AssertionError if anything is harmed or left over."""
    reference = undisturbed(folder / "undisturbed", RUN)
    memory, outside = shared_memory(), left_outside()
    killer = Killer(folder, reference, kills, seed)
    killer.run()
    if kills >= MANY:
        assert set(killer.done) == set(ROLES), killer.done
    check_nothing_left_outside(outside)
    wait_for(lambda: shared_memory() <= memory + (1 << 20), "shared memory back to where it was")
    return killer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of the choice of victims and gaps")
    arguments = parser.parse_args()
    sys.stdout.write(f"{arguments.kills} kills, seed {arguments.seed}\n")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        killer = kill_randomly(Path(folder), arguments.kills, arguments.seed)
    counts = ", ".join(f"{role} {count}" for role, count in sorted(killer.done.items()))
    sys.stdout.write(f"{killer.done.total()} kills in {killer.runs} runs, {time.monotonic() - begin:.0f} s: {counts}\n")
    sys.stdout.write("all runs ended with the bits of the undisturbed one, and nothing was left over\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
