"""The crash points there are, read from the sources, and runs that come by them.

`python -m tests.chaos.points` does what the tests have no time for: of every point the first, middle and last time, and
each with SIGKILL, SIGSEGV, a stop that lasts until the supervisor kills, a stop after which the process goes on, and an
early exit. And every point on either of two machines, with SIGKILL.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tests.chaos.oracle import CHESS, SETTINGS, Undisturbed, assert_unharmed, undisturbed
from tests.support.machines import machines_of
from tests.support.paths import ROOT
from tests.support.processes import children
from tests.support.runs import Ended, command, run, run_well

CHILDREN_DIE_BY = ("kill", "segv", "exit", "stop", "pause")
SUPERVISOR_DIES_BY = ("kill", "segv")
HANG_TIMEOUT = 4.0  # seconds until a stopped process is killed
START_TIMEOUT = 30.0  # the same, while it starts
PAUSE = 1.0  # seconds that one that goes on is stopped for
CHESS_ONLY = {  # of pool/, but our own optimizer's, or of the planned kernels
    "worker.table_written",
    "coordinator.mid_snapshot",
    "coordinator.mid_step",
    "coordinator.weights_caught_up",
    "coordinator.weights_folded",
}
DEVICE_ONLY = {  # of an exchange on a device
    "coordinator.memory_lent",
    "coordinator.piece_given_out",
    "coordinator.state_on_its_way",
    "coordinator.version_queued",
    "worker.memory_borrowed",
}
MACHINES_ONLY = {  # of a run on several machines
    "coordinator.before_announce",
    "coordinator.after_announce",
    "coordinator.before_send",
    "coordinator.after_send",
    "coordinator.sums_heard",
    "coordinator.report_heard",
}
BORROWED = "worker.memory_borrowed"
# Of a coordinator whose workers have begun nothing yet. With an exchange on devices they die with it.
BEFORE_WORK = {"coordinator.before_hello", "coordinator.after_hello", "coordinator.after_orders"}
_CALL = re.compile(r'crash_point\("([a-z]+\.[a-z_]+)"\)')
_PREFIX = "crash point "


def crash_points() -> dict[str, list[str]]:
    """Role -> names, but for those of `chess_points`, `device_points`, and of several machines."""
    return by_role(names_in(ROOT / "pool") - CHESS_ONLY - DEVICE_ONLY - MACHINES_ONLY)


def device_points() -> dict[str, list[str]]:
    """Role -> names of what coordinator and workers come by with an exchange on a device, and with our own optimizer;
    but for BORROWED, which no worker comes by whose coordinator dies before."""
    ours = {"coordinator.weights_caught_up", "coordinator.weights_folded"}
    # what torch's optimizers come by, or the CPU's kernels
    others = {"coordinator.mid_fold", "coordinator.weights_copied", "coordinator.weights_stepped", "worker.mid_table"}
    found = by_role(((names_in(ROOT / "pool") - CHESS_ONLY - MACHINES_ONLY - others) | DEVICE_ONLY | ours) - {BORROWED})
    return {role: found[role] for role in ("coordinator", "worker")}


def local_points() -> list[str]:
    """Names of what they come by in one process, whose device is the only one."""
    found = device_points()
    names = {*found["coordinator"], *found["worker"], BORROWED}
    return sorted(names - {"coordinator.piece_given_out"})


def chess_points() -> dict[str, list[str]]:
    """Role -> names that only runs with real data come by."""
    return by_role(names_in(ROOT / "loader") | CHESS_ONLY)


def names_in(folder: Path) -> set[str]:
    found: set[str] = set()
    for path in folder.rglob("*"):
        if path.suffix in (".py", ".cpp", ".h", ".inc"):
            found |= set(_CALL.findall(path.read_text(encoding="utf-8")))
    return found


def by_role(names: set[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        found[name.partition(".")[0]].append(name)
    return dict(found)


def together(points: dict[str, list[str]]) -> list[tuple[str, ...]]:
    """One of each role a run, so that few runs come by all of them."""
    longest = max(map(len, points.values()))
    return [tuple(names[i] for names in points.values() if i < len(names)) for i in range(longest)]


def apart(pairs: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The same, but that each name comes alone where the coordinator would die before the worker comes by its own."""
    return [one for names in pairs for one in ([(n,) for n in names] if BEFORE_WORK & {*names} else [names])]


def armed(settings: dict[str, Any], *specs: str) -> dict[str, Any]:
    return {**settings, "testing.crash_points": list(specs)}


def came_by(dir: Path) -> Counter[str]:
    """How often each point's crash has happened, or was noted, as the processes have said; the supervisor's not."""
    lines = "".join(path.read_text() for path in (dir / "logs").glob("*.log")).splitlines()
    return Counter(line.removeprefix(_PREFIX) for line in lines if line.startswith(_PREFIX))


class Matrix:
    """Point x time x way to die, one run each, of one kind of run."""

    def __init__(self, folder: Path, settings: dict[str, Any], points: dict[str, list[str]]) -> None:
        self._folder = folder
        self._settings = settings
        self._numbers = itertools.count()
        self.reference: Undisturbed = undisturbed(folder / "undisturbed", settings)
        names = [name for names in points.values() for name in names]
        noted = run_well(folder / "noted", armed(settings, *(f"{name}=note" for name in names)))
        self.times = came_by(noted.dir) + Counter(
            line.removeprefix(_PREFIX) for line in noted.err.splitlines() if line.startswith(_PREFIX)
        )

    def cases(self) -> list[tuple[str, int, str]]:
        """Point, which time, how; points that an undisturbed run does not come by are left out."""
        found = []
        for name, times in sorted(self.times.items()):
            ways = SUPERVISOR_DIES_BY if name.startswith("supervisor.") else CHILDREN_DIE_BY
            found += [(name, at, how) for at in sorted({1, (times + 1) // 2, times}) for how in ways]
        return found

    def check(self, name: str, at: int, how: str) -> None:
        """Raises AssertionError."""
        dir = self._folder / f"run-{next(self._numbers)}"
        spec = f"{name}@{at}={'stop' if how == 'pause' else how}"
        if name.startswith("supervisor."):
            killed = run(dir, armed(self._settings, spec))
            assert killed.code < 0 or killed.code == 0, killed.err
            ended = run_well(dir, self._settings, "--resume")
        elif how == "pause":
            ended = run_and_continue(dir, armed(self._settings, spec))
        else:
            patience = {"pool.hang_timeout": HANG_TIMEOUT, "pool.start_timeout": START_TIMEOUT}
            ended = run(dir, {**armed(self._settings, spec), **patience})
        assert_unharmed(ended, self.reference, self._settings)


def run_and_continue(dir: Path, settings: dict[str, Any]) -> Ended:
    """A run of which whoever is stopped goes on a little later."""
    process = subprocess.Popen(
        command(dir, settings), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        while True:
            try:
                out, err = process.communicate(timeout=PAUSE)
                return Ended(dir, process.returncode, out, err)
            except subprocess.TimeoutExpired:
                for pid in children(process.pid):
                    if is_stopped(pid):
                        os.kill(pid, signal.SIGCONT)
    finally:
        process.kill()


def is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


class MachinesMatrix:
    """Point x machine, of two, one run each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        self._reference = run_well(folder / "undisturbed", SETTINGS).digest()

    def cases(self) -> list[tuple[str, int]]:
        names = names_in(ROOT / "pool") - CHESS_ONLY - DEVICE_ONLY
        return [(name, machine) for name in sorted(names) for machine in range(2)]

    def check(self, name: str, machine: int) -> None:
        """Raises AssertionError."""
        of_each: list[dict[str, Any]] = [{}, {}]
        of_each[machine] = {"testing.crash_points": [f"{name}=kill"]}
        folder = self._folder / f"run-{next(self._numbers)}"
        folder.mkdir()
        with machines_of(folder / "run", SETTINGS, *of_each) as machines:
            dies = machines[machine]
            if name.startswith("supervisor."):
                dies.process.wait(200)
                dies.begin("--resume", "--set", "testing.crash_points=[]")
            ended = [each.end() for each in machines]
        assert [each.digest() for each in ended] == [self._reference] * 2
        assert f"{_PREFIX}{name}" in dies.out or came_by(dies.dir)[name], f"nothing has come by: {dies.out}"


def check_all(matrix: Matrix | MachinesMatrix, only: str, jobs: int) -> tuple[int, int]:
    """How many runs that were, and how many of them were harmed; each of those is shown as it is found."""
    cases: list[tuple[Any, ...]] = [case for case in matrix.cases() if only in case[0]]
    harmed = 0
    with ThreadPoolExecutor(jobs) as pool:
        checks = {pool.submit(matrix.check, *case): case for case in cases}
        for number, check in enumerate(as_completed(checks), 1):
            sys.stdout.write(f"\r{number}/{len(cases)} {' '.join(map(str, checks[check]))}\x1b[K")
            if (error := check.exception()) is not None:
                harmed += 1
                sys.stdout.write("\n" + "".join(traceback.format_exception(error)))
            sys.stdout.flush()
    sys.stdout.write("\n")
    return len(cases), harmed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="points whose name contains this")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    arguments = parser.parse_args()
    runs = points = harmed = 0
    for settings, names in ((SETTINGS, crash_points()), (CHESS, chess_points())):
        with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
            matrix = Matrix(Path(folder), settings, names)
            some, bad = check_all(matrix, arguments.only, arguments.jobs)
            runs, harmed, points = runs + some, harmed + bad, points + len(matrix.times)
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        some, bad = check_all(MachinesMatrix(Path(folder)), arguments.only, arguments.jobs)
        runs, harmed = runs + some, harmed + bad
    sys.stdout.write(f"{runs} runs, {points} crash points: ")
    sys.stdout.write(f"{harmed} harmed\n" if harmed else "all ended with the undisturbed run's bits\n")
    return 1 if harmed else 0


if __name__ == "__main__":
    sys.exit(main())
