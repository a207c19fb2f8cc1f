"""How long a run stands still when one of its processes is killed: from SIGKILL to the next commit.

    one worker       the next commit needs the restarted worker: back at work, with a batch computed
    two workers      the other one goes on; the batch of the dead one is computed again
    feeder           the ring has batches; the new one seeks
    coordinator      the newest snapshot is loaded, the steps since are done again
    two machines     that of the second machine is killed; both begin anew from the newest snapshot, and meet again

Real processes (fake GPUs, a small model), each killed `--kills` times: median, worst. Prints a table and a JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from tests.support.machines import machines_of
from tests.support.paths import ROOT
from tests.support.processes import roles
from tests.support.runs import TOY, command
from tests.support.wait import wait_for

RUN: dict[str, Any] = {
    **TOY,
    "train.steps": 1_000_000,
    "train.checkpoint_every": 0,
    "pool.snapshot_steps": 20,
    "pool.restarts": 1000,
}
DEVICE = "fake:{}?compute_ms=5"
REQUIRED_MEDIAN = 1.0  # seconds, for a worker back at work
PROGRESS_SECONDS = 0.5  # between two kills, or the second one is a death without a step done, and has to wait


class Run:
    """A run to kill processes of."""

    def __init__(self, dir: Path, process: subprocess.Popen[bytes], workers: int) -> None:
        self._workers = workers
        self._killed: set[int] = set()
        self._process = process
        self._metrics = dir / "metrics.jsonl"
        self._wait_for_commit_after(0.0)

    def seconds_after_killing(self, role: str) -> float:
        """From the kill to the first commit that is not one of the past."""
        wait_for(self._complete, "everybody back from the kill before")
        victim = next(pid for pid, its in sorted(self._living().items()) if its == role)
        self._wait_for_commit_after(time.time() + PROGRESS_SECONDS)
        self._killed.add(victim)
        os.kill(victim, signal.SIGKILL)
        return self._wait_for_commit_after(killed := time.time(), more_than=self._steps_done()) - killed

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(60)

    def _complete(self) -> bool:
        count = Counter(self._living().values())
        return count["worker"] == self._workers and count["feeder"] == count["coordinator"] == 1

    def _living(self) -> dict[int, str]:
        """But for those that are dying."""
        return {pid: role for pid, role in roles(self._process.pid).items() if pid not in self._killed}

    def _steps_done(self) -> int:
        line = last_line(self._metrics)
        return int(json.loads(line)["step"]) if line else 0

    def _wait_for_commit_after(self, moment: float, more_than: int = 0) -> float:
        """When the first commit after `moment` of a step beyond `more_than` was."""
        found: list[float] = []

        def committed() -> bool:
            line = last_line(self._metrics)
            record = json.loads(line) if line else {"time": 0.0, "step": 0}
            if record["time"] > moment and record["step"] > more_than:
                found.append(record["time"])
            return bool(found)

        wait_for(committed, "a commit", 120)
        return found[0]


def last_line(path: Path) -> str:
    """The last whole line of a file that grows; empty if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            lines = file.read().split(b"\n")
    except OSError:
        return ""
    return lines[-2].decode() if len(lines) > 1 else ""


def settings(workers: int) -> dict[str, Any]:
    return {**RUN, "pool.devices": [DEVICE.format(index) for index in range(workers)]}


def measure(folder: Path, kills: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for workers, roles_to_kill in ((1, ("worker",)), (2, ("worker", "feeder", "coordinator"))):
        dir = folder / f"run-{workers}"
        process = subprocess.Popen(command(dir, settings(workers)), cwd=ROOT, stdout=subprocess.DEVNULL)
        run = Run(dir, process, workers)
        for role in roles_to_kill:
            name = {1: "one worker"}.get(workers, {"worker": "two workers"}.get(role, role))
            found[name] = _kill(run, role, name, kills)
        run.close()
    with machines_of(folder / "machines", settings(1), {}, {}) as machines:
        run = Run(machines[1].dir, machines[1].process, 1)
        found["two machines"] = _kill(run, "coordinator", "two machines", kills)
        run.close()
        machines[0].process.wait(60)
    return found


def _kill(run: Run, role: str, name: str, kills: int) -> list[float]:
    found: list[float] = []
    for number in range(kills):
        found.append(run.seconds_after_killing(role))
        sys.stderr.write(f"\r{name}: {number + 1}/{kills}   ")
    sys.stderr.write("\n")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="recovery-") as folder:
        found = measure(Path(folder), arguments.kills)
    print(f"{'killed':14}{'median s':>10}{'worst s':>10}   kills")
    for name, seconds in found.items():
        print(f"{name:14}{median(seconds):10.2f}{max(seconds):10.2f}   {len(seconds)}")
    worst_median = median(found["one worker"])
    print(
        f"required: one worker, median under {REQUIRED_MEDIAN} s: {'yes' if worst_median < REQUIRED_MEDIAN else 'NO'}"
    )
    results = {name: {"median": median(seconds), "worst": max(seconds)} for name, seconds in found.items()}
    print(json.dumps({"benchmark": "recovery", "cores": os.cpu_count(), "kills": arguments.kills, "seconds": results}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
