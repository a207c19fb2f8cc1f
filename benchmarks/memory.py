"""What a run keeps in memory: each segment, and what each process has besides.

A run of the stockfish task with two CPU workers and small batches, so that a copy of the table could not hide among the
activations; looked at after it has made snapshots, from /proc/PID/smaps. "Its own" are pages that no other process has:
what is forked from the fork server and never written to is there once for all. Beyond the segments (ring, two versions
of the weights, gradient slots, snapshots) and the optimizer's state there must be no copy of the table anywhere: the
rest of what a process has of its own is less than one.

Also how many bytes of gradients the coordinator reads in a step. Prints two tables for each l1 and one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.rotated import SAMPLE
from pool.tasks.chess.stockfish.halfka import INPUTS as NUM_FEATURES
from tests.support.paths import ROOT
from tests.support.processes import Usage, memory_of, roles
from tests.support.runs import command, steps_done
from tests.support.wait import wait_for

MOMENTS = 2  # tables that Adam keeps
MIB = 1 << 20
RUN: dict[str, Any] = {
    "task": "stockfish",
    "data.train": [str(SAMPLE)],
    "data.batch_size": 512,
    "data.threads": 1,
    "optimizer.name": "pool.optim.Adam",
    "optimizer.args.lr": 1e-3,
    "train.steps": 1_000_000,
    "train.batches_per_step": 2,
    "train.checkpoint_every": 0,
    "pool.devices": ["cpu", "cpu"],
}


def run(folder: Path, l1: int, steps: int) -> tuple[dict[str, Usage], float]:
    """Processes of a run of so many steps and more, by role and number; megabytes of gradients read in a step."""
    dir = folder / "run"
    settings = {**RUN, "model.l1": l1, "pool.snapshot_steps": steps // 4}
    supervisor = subprocess.Popen(command(dir, settings), cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: supervisor.poll() is not None or steps_done(dir) >= steps, f"{steps} steps", 300)
        if supervisor.poll() is not None:
            raise SystemExit(f"pool train ended with {supervisor.returncode}")
        found, count = {"supervisor": memory_of(supervisor.pid)}, defaultdict[str, int](int)
        for pid, role in sorted(roles(supervisor.pid).items()):
            found[f"{role} {count[role]}" if role == "worker" else role] = memory_of(pid)
            count[role] += 1
        lines = [json.loads(line) for line in (dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[:steps]]
        return found, statistics.fmean(line["gradient_mb"] for line in lines)
    finally:
        supervisor.terminate()
        supervisor.wait(60)


def measure(l1: int, steps: int, console: Console) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        processes, gradient_mb = run(Path(folder), l1, steps)
    table_bytes = 4 * NUM_FEATURES * l1
    segments = {name: size for process in processes.values() for name, size in process.segments.items()}
    shown = Table("segment", "MiB", "in tables", title=f"l1 = {l1}: a table is {table_bytes / MIB:.0f} MiB")
    for name, size in sorted(segments.items()):
        shown.add_row(name, f"{size / MIB:.1f}", f"{size / table_bytes:.2f}")
    console.print(shown)
    shown = Table("process", "resident MiB", "its own", "less Adam's state", "in tables", "under one")
    rows = []
    for name, process in processes.items():
        rest = process.own - (MOMENTS * table_bytes if name == "coordinator" else 0)
        copies = rest / table_bytes
        numbers = [f"{size / MIB:.0f}" for size in (process.resident, process.own, rest)]
        shown.add_row(name, *numbers, f"{copies:.2f}", "yes" if copies < 1 else "NO")
        rows.append(
            {"process": name, "resident": process.resident, "own": process.own, "rest": rest, "met": copies < 1}
        )
    console.print(shown)
    console.print(f"gradients read in a step: {gradient_mb:.1f} MB, of slots of {table_bytes / 1e6:.1f} MB\n")
    return {"l1": l1, "table": table_bytes, "gradient_mb": gradient_mb, "segments": segments, "processes": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--l1", type=int, nargs="+", default=[1024, 3072])
    parser.add_argument("--steps", type=int, default=60, help="before the processes are looked at")
    arguments = parser.parse_args()
    console = Console(width=120)
    results = [measure(l1, arguments.steps, console) for l1 in arguments.l1]
    print(json.dumps({"benchmark": "memory", "cores": os.cpu_count(), "results": results}))


if __name__ == "__main__":
    main()
