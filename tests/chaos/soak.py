"""A long run with a kill a minute and workers of different speed: does anything grow? `python -m tests.chaos.soak`

Resident size and open descriptors of every process are looked at every two seconds. Of each process that lives long
enough a line through its samples is fitted, the first minute left out; the steepest of each role is shown, and one that
grows faster than allowed is an error.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.paths import ROOT
from tests.support.processes import roles
from tests.support.runs import TOY, command

RUN: dict[str, Any] = {
    **TOY,
    "train.steps": 100_000_000,
    "train.checkpoint_every": 500,
    "pool.devices": ["fake:0?compute_ms=2", "fake:1?compute_ms=20", "fake:2?compute_ms=7"],
    "model.hidden": 256,
}
SAMPLE_SECONDS = 2.0
KILL_SECONDS = 60.0
SETTLING_SECONDS = 60.0  # of a process's life that do not count
SHORTEST_SECONDS = 120.0  # of what is left
MIB_PER_HOUR = 24.0  # allowed; what a metrics buffer or a log may do in minutes, blown up to an hour
DESCRIPTORS_PER_HOUR = 30.0


@dataclass(frozen=True)
class Sample:
    at: float  # seconds
    resident: int  # bytes, shared memory left out
    descriptors: int


def sample(pid: int) -> Sample | None:
    """None if the process is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in status.splitlines())
    if "RssAnon" not in fields:
        return None
    return Sample(time.monotonic(), int(fields["RssAnon"].split()[0]) << 10, descriptors)


class Soak:
    def __init__(self, supervisor: int, seed: int) -> None:
        self.samples: dict[tuple[str, int], list[Sample]] = defaultdict(list)
        self.kills = 0
        self._supervisor = supervisor
        self._random = random.Random(seed)

    def watch(self, seconds: float) -> None:
        pause = threading.Event()
        end = time.monotonic() + seconds
        next_kill = time.monotonic() + KILL_SECONDS
        while (now := time.monotonic()) < end:
            living = {**roles(self._supervisor), self._supervisor: "supervisor"}
            for pid, role in living.items():
                if (found := sample(pid)) is not None:
                    self.samples[role, pid].append(found)
            if now >= next_kill:
                next_kill += KILL_SECONDS
                self._kill(living)
            sys.stderr.write(f"\r{end - now:5.0f} s to go, {self.kills} kills   ")
            pause.wait(SAMPLE_SECONDS)
        sys.stderr.write("\n")

    def _kill(self, living: dict[int, str]) -> None:
        """Two workers and the others get by turns what they need to show a slope: one worker is never killed."""
        workers = sorted(pid for pid, role in living.items() if role == "worker")[1:]
        others = [pid for pid, role in living.items() if role in ("feeder", "forkserver")]
        os.kill(self._random.choice([*workers, *others]), signal.SIGKILL)
        self.kills += 1


@dataclass(frozen=True)
class Slope:
    role: str
    minutes: float
    mib_per_hour: float
    descriptors_per_hour: float
    mib: float  # at the end


def slopes(samples: dict[tuple[str, int], list[Sample]]) -> list[Slope]:
    """Of all processes that were looked at for long enough, as the roles they had."""
    found = []
    for (role, _), all_of_it in sorted(samples.items()):
        begin = all_of_it[0].at
        rest = [entry for entry in all_of_it if entry.at - begin >= SETTLING_SECONDS]
        if not rest or rest[-1].at - rest[0].at < SHORTEST_SECONDS:
            continue
        hours = np.array([(entry.at - begin) / 3600 for entry in rest])
        mib = np.array([entry.resident / (1 << 20) for entry in rest])
        descriptors = np.array([entry.descriptors for entry in rest])
        found.append(
            Slope(
                role,
                60 * float(hours[-1] - hours[0]),
                float(np.polyfit(hours, mib, 1)[0]),
                float(np.polyfit(hours, descriptors, 1)[0]),
                float(mib[-1]),
            )
        )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of the choice of victims")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        process = subprocess.Popen(command(Path(folder) / "run", RUN), cwd=ROOT, stdout=subprocess.DEVNULL)
        soak = Soak(process.pid, arguments.seed)
        try:
            soak.watch(60 * arguments.minutes)
            ended_early = process.poll() is not None
            process.terminate()
            process.wait(120)
        finally:
            process.kill()
    print(f"{'role':12}{'minutes':>8}{'MiB':>8}{'MiB/h':>8}{'fds/h':>8}")
    too_steep = False
    for slope in slopes(soak.samples):
        bad = slope.mib_per_hour > MIB_PER_HOUR or slope.descriptors_per_hour > DESCRIPTORS_PER_HOUR
        too_steep |= bad
        print(
            f"{slope.role:12}{slope.minutes:8.1f}{slope.mib:8.1f}{slope.mib_per_hour:8.2f}"
            f"{slope.descriptors_per_hour:8.2f}{'   grows' if bad else ''}"
        )
    print(f"{soak.kills} kills, seed {arguments.seed}, exit code {process.returncode}")
    return 1 if too_steep or ended_early or process.returncode != 143 else 0


if __name__ == "__main__":
    sys.exit(main())
