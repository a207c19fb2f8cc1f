"""Kills processes of real runs at random, every role as often as any other; `python -m tests.chaos.kills --kills 1000`.

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

from tests.chaos.oracle import SETTINGS, Undisturbed, assert_unharmed, left_outside, shared_memory, undisturbed
from tests.support.processes import roles
from tests.support.runs import ROOT, Ended, command
from tests.support.wait import wait_for

RUN: dict[str, Any] = {
    **SETTINGS,
    "train.steps": 60,
    "train.checkpoint_every": 10,
    "pool.devices": ["fake:0?compute_ms=15", "fake:1?compute_ms=15"],
    "pool.restarts": 100,
}
ROLES = ("supervisor", "forkserver", "planner", "coordinator", "feeder", "worker")
MEAN_GAP = 0.5  # seconds between two kills, beside the wait for somebody who has the role
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
        code = -signal.SIGKILL
        while code == -signal.SIGKILL:
            process = subprocess.Popen(
                command(dir, RUN, "--resume"), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            try:
                self._kill_while_it_runs(process, deadline)
            finally:
                process.kill()
            out, err = process.communicate()
            code = process.returncode
        assert_unharmed(Ended(dir, code, out, err), self._reference, RUN)

    def _kill_while_it_runs(self, process: subprocess.Popen[str], deadline: float) -> None:
        """Draws role and moment, then waits for one who has the role: so a start gets through now and then."""
        while not _ended_within(process, self._random.expovariate(1 / MEAN_GAP)):
            role = self._random.choice(ROLES)
            while self.done.total() < self._kills and not self._kill_one(process.pid, role):
                if _ended_within(process, 0.01):
                    return
                if role == "planner" and "worker" in roles(process.pid).values():
                    break  # there is one at the start only
                assert time.monotonic() < deadline, f"supervisor {process.pid} does not end"
            assert time.monotonic() < deadline, f"supervisor {process.pid} does not end"

    def _kill_one(self, supervisor: int, role: str) -> bool:
        living = {**roles(supervisor), supervisor: "supervisor"}
        having = sorted(pid for pid, its in living.items() if its == role)
        if not having:
            return False
        try:
            os.kill(self._random.choice(having), signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.done[role] += 1
        return True


def _ended_within(process: subprocess.Popen[str], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def kill_randomly(folder: Path, kills: int, seed: int) -> Killer:
    """Raises AssertionError if anything is harmed or left over."""
    reference = undisturbed(folder / "undisturbed", RUN)
    memory, outside = shared_memory(), left_outside()
    killer = Killer(folder, reference, kills, seed)
    killer.run()
    assert left_outside() <= outside, left_outside() - outside
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
