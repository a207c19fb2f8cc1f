"""Commands that write files of chess positions, as a user starts them: `loader convert` to each format, and `shuffle`.

Input: a binpack file of at least 32 MiB (`benchmarks/rotated.py`), and the same positions in bulletformat. Beside each
command, in the same turn, what it can't do without: its input read and checked (`loader verify`), and two copies of its
output, each written to the disk (a shuffle that memory does not hold writes everything twice). Medians over the turns;
processor time is of all threads. Prints a table and one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.formats import FORMATS
from benchmarks.rotated import REAL, rotated_copies

LOADER = [sys.executable, "-m", "loader"]
TARGETS = [name for name in FORMATS if name != "binpack"]


@dataclass(frozen=True)
class Work:
    name: str
    source: str  # the input's format
    target: str
    options: tuple[str, ...] = ()  # of the command, besides its files

    @property
    def command(self) -> str:
        return self.name.split()[0]


@dataclass(frozen=True)
class Times:
    """Seconds."""

    wall: float
    cpu: float
    read: float  # `loader verify` of the input
    copied: float  # two synced copies of the output


def works(formats: Sequence[str]) -> list[Work]:
    converted = [Work(f"convert binpack to {name}", "binpack", name, ("--lossy",)) for name in formats]
    back = Work("convert bulletformat to binpack", "bulletformat", "binpack", ("--lossy",))
    shuffled = [
        Work(f"shuffle {name}, {memory}", name, name, ("--memory", memory))
        for name in ("binpack", "bulletformat")
        for memory in ("64MiB", "4GiB")
    ]
    return [*converted, back, *shuffled]


def measure(work: Work, files: dict[str, Path], folder: Path, threads: int) -> tuple[Times, int]:
    """And the output's bytes."""
    source, out = files[work.source], folder / f"out{FORMATS[work.target]}"
    options = ["--threads", str(threads)]
    wall, cpu = timed([*LOADER, work.command, str(source), "-o", str(out), *work.options, *options])
    read, _ = timed([*LOADER, "verify", str(source), *options])
    copied = seconds(lambda: synced_copies(out, folder / "copy", 2))
    size = out.stat().st_size
    out.unlink()
    return Times(wall, cpu, read, copied), size


def timed(command: Sequence[str]) -> tuple[float, float]:
    """Wall and processor time of a process. Raises SystemExit with what it says if it fails."""
    before = os.times()
    wall = seconds(lambda: run(command))
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return wall, cpu


def run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)


def seconds(function: Callable[[], object]) -> float:
    began = time.monotonic()
    function()
    return time.monotonic() - began


def synced_copies(source: Path, target: Path, count: int) -> None:
    for _ in range(count):
        shutil.copyfile(source, target)
        with target.open("rb+") as file:
            os.fsync(file.fileno())
        target.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=REAL, help="a binpack file to copy")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--formats", nargs="+", choices=TARGETS, default=TARGETS, help="to convert to")
    parser.add_argument("--folder", type=Path, help="where files are written: on the disk to measure")
    arguments = parser.parse_args()
    found: dict[Work, list[Times]] = {}
    sizes: dict[Work, int] = {}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        files = {each: folder / f"positions{FORMATS[each]}" for each in ("binpack", "bulletformat")}
        rotated_copies(arguments.data, files["binpack"])
        run([*LOADER, "convert", str(files["binpack"]), "-o", str(files["bulletformat"]), "--lossy"])
        positions = files["bulletformat"].stat().st_size // 32
        for _ in range(arguments.repeats):
            for work in works(arguments.formats):
                times, sizes[work] = measure(work, files, folder, arguments.threads)
                found.setdefault(work, []).append(times)
    table = Table("command", "MiB out", "s", "M positions/s", "s cpu", "times reading", "times two synced copies")
    rows = []
    for work, turns in found.items():
        middle = Times(*(statistics.median(getattr(each, field.name) for each in turns) for field in fields(Times)))
        numbers = [middle.wall, 1e-6 * positions / middle.wall, middle.cpu]
        ratios = [middle.wall / middle.read, middle.wall / middle.copied]
        table.add_row(work.name, f"{sizes[work] >> 20:,}", *(f"{number:.1f}" for number in [*numbers, *ratios]))
        rows.append({"command": work.name, "bytes": sizes[work], **asdict(middle)})
    table.title = f"{positions:,} positions, {arguments.threads} threads"
    Console().print(table)
    print(json.dumps({"benchmark": "file_commands", "positions": positions, "results": rows}))


if __name__ == "__main__":
    main()
