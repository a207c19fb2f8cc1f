"""What the pool itself costs: a step of nothing, and how it scales over simulated GPUs.

Cost: a model without computation, one batch a worker. From the moment when the last worker has its gradient to the
moment when the first one begins the next step, by the run's own trace: two messages between processes, the reduction,
the optimizer, the commit. Medians over the steps of a run.

Scaling: fake GPUs that take a fixed time for a batch without using the processor, a gradient of 8 MB from each. Perfect
would be a step as long as that time, whatever the number of workers. What a run says of the rest stands beside it. On a
machine with fewer cores than workers their gradients (8 MB written, checked and read) take turns on those cores.

Prints two tables and one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.rotated import ROOT

REQUIRED_US = {2: 400, 8: 1000}
GRADIENT = 2_000_000  # numbers, 8 MB
SHARES = ("compute", "loader", "reduce", "optimizer", "weights")


def train(folder: Path, workers: int, steps: int, *, numbers: int, compute_ms: float, trace: bool) -> Path:
    """A run of the empty task to its end; returns its folder."""
    dir = folder / "run"
    devices = [f"fake:{i}?compute_ms={compute_ms:g}" if compute_ms else f"fake:{i}" for i in range(workers)]
    config = folder / "run.toml"
    config.write_text(
        f"""
task = "benchmarks.empty_task"
run.dir = "{dir}"
data.source = "synthetic"
data.batch_size = 64
model.numbers = {numbers}
optimizer.name = "pool.optim.Adam"
train.steps = {steps}
train.batches_per_step = {workers}
train.checkpoint_every = 0
pool.devices = {json.dumps(devices)}
pool.snapshot_steps = 1000000
""",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pool", "train", str(config)]
    command += ["--trace", str(folder / "trace.json")] if trace else []
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"pool train ended with {done.returncode}:\n{done.stderr}")
    return dir


def cost_us(workers: int, steps: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        train(Path(folder), workers, steps, numbers=16, compute_ms=0, trace=True)
        events: list[dict[str, Any]] = json.loads((Path(folder) / "trace.json").read_text())["traceEvents"]
    last: dict[int, float] = defaultdict(float)  # by step: when the last worker had its gradient
    first: dict[int, float] = {}  # by step: when the first worker began
    for event in events:
        step = event.get("args", {}).get("step")
        if event["name"] == "is it finite?":
            last[step] = max(last[step], event["ts"] + event["dur"])
        elif event["name"] == "load":
            first[step] = min(first.get(step, event["ts"]), event["ts"])
    gaps = [first[step + 1] - last[step] for step in sorted(last)[steps // 4 :] if step + 1 in first]
    return statistics.median(gaps)


def scaling(workers: int, steps: int, compute_ms: float) -> tuple[float, dict[str, float]]:
    """Milliseconds a step, and where the workers' time went."""
    with tempfile.TemporaryDirectory() as folder:
        dir = train(Path(folder), workers, steps, numbers=GRADIENT, compute_ms=compute_ms, trace=False)
        lines = [json.loads(line) for line in (dir / "metrics.jsonl").read_text().splitlines()]
    later = [line["time"] for line in lines][steps // 4 :]
    shares = {name: statistics.fmean(line[name] for line in lines[steps // 4 :]) for name in SHARES}
    return 1e3 * (later[-1] - later[0]) / (len(later) - 1), shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--compute-ms", type=float, nargs="+", default=[5, 20])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--only", choices=("cost", "scaling"))
    arguments = parser.parse_args()
    console = Console(width=120)
    costs: dict[int, float] = {}
    if arguments.only != "scaling":
        table = Table("workers", "us from last gradient to next start", "required", title="a step of nothing")
        for workers in arguments.workers:
            costs[workers] = cost_us(workers, arguments.steps)
            required = REQUIRED_US.get(workers)
            table.add_row(str(workers), f"{costs[workers]:.0f}", "" if required is None else f"at most {required}")
        console.print(table)
    results = []
    if arguments.only != "cost":
        table = Table(
            "compute ms", "workers", "ms a step", "efficiency", *SHARES, title=f"{os.cpu_count()} cores, 8 MB each"
        )
        for compute_ms in arguments.compute_ms:
            for workers in arguments.workers:
                step_ms, shares = scaling(workers, arguments.steps // 2, compute_ms)
                efficiency = compute_ms / step_ms
                parts = [f"{shares[name]:.0%}" for name in SHARES]
                table.add_row(f"{compute_ms:g}", str(workers), f"{step_ms:.1f}", f"{efficiency:.0%}", *parts)
                results.append({"compute_ms": compute_ms, "workers": workers, "ms": step_ms, **shares})
        console.print(table)
    print(json.dumps({"benchmark": "pool_cost", "cores": os.cpu_count(), "cost_us": costs, "scaling": results}))


if __name__ == "__main__":
    main()
