"""Training chess networks for real: `pool train`, loader included, against torch's DistributedDataParallel.

A step is 16,384 positions as two batches of 8,192. The pool: its processes as a user starts them, data from a file
(`rotated`), two CPU workers of one thread each, one of one thread, one of two. DistributedDataParallel: two processes
of one thread each over gloo, the same network with torch.nn.EmbeddingBag as its first layer, fused Adam, each
process's batch in memory before it begins. All take turns; medians over the turns of each run's median step, from the
second second on. Prints a table and one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from rich.console import Console
from rich.table import Table
from torch.nn.parallel import DistributedDataParallel

from benchmarks.endless_run import endless_run, times
from benchmarks.networks import NETWORKS, Network, tables
from benchmarks.nnue_step import Bags
from benchmarks.pace import enough, median_rate
from benchmarks.rotated import REAL, ROOT, rotated_copies
from pool import _native
from pool.nn.batch import TensorBatch
from pool.task.task import Progress

BATCH, PER_STEP = 8192, 2
LEARNING_RATE = 1e-3
WARM_UP = 1.0  # seconds that are not counted
DDP = "DistributedDataParallel"
CASES = {"two workers": ("cpu", "cpu"), "one worker": ("cpu",), "one worker, two threads": ("cpu",)}
BARS = {"SFNNv5-256": 6.0, "SFNNv5": 10.0}  # two workers' speed, in DistributedDataParallel's
NARROW = "SFNNv5-256"
TWO_WORKERS = 1.8  # their speed, in that of one worker, of NARROW


def settings(case: str, network: Network, data: Path, optimizer: str) -> str:
    """Of a run of the pool."""
    return f"""
{network.config()}
data.train = ["{data}"]
data.batch_size = {BATCH}
data.threads = 1
optimizer.name = "{optimizer}"
optimizer.args = {{ lr = {LEARNING_RATE}{", fused = true" if optimizer == "torch.optim.Adam" else ""} }}
train.batches_per_step = {PER_STEP}
pool.devices = {json.dumps(CASES[case])}
pool.threads = {2 if "two threads" in case else 1}
"""


def pool_rate(case: str, network: Network, data: Path, seconds: float, optimizer: str) -> float:
    """Positions a second of a run of the pool."""
    with endless_run(settings(case, network, data, optimizer)) as run:
        records = run.until(lambda records: enough(times(records), WARM_UP, seconds))
    return BATCH * PER_STEP * median_rate(times(records), WARM_UP)


def ddp_rate(name: str, data: Path, seconds: float) -> float:
    with tempfile.NamedTemporaryFile() as meeting:
        command = [
            sys.executable,
            "-m",
            "benchmarks.training",
            f"--networks={name}",
            f"--source={data}",
            f"--seconds={seconds}",
        ]
        ranks = [
            subprocess.Popen(
                [*command, f"--rank={rank}", f"--meeting={meeting.name}"], stdout=subprocess.PIPE, cwd=ROOT
            )
            for rank in range(2)
        ]
        return float(ranks[0].communicate()[0])


def ddp_rank(arguments: argparse.Namespace) -> None:
    """One of two ranks; the first prints positions a second of both."""
    torch.set_num_threads(1)
    _native.keep_freed_memory()
    dist.init_process_group("gloo", init_method=f"file://{arguments.meeting}", rank=arguments.rank, world_size=2)
    network = NETWORKS[arguments.networks[0]]
    task = network.create_task("torch")
    torch.manual_seed(0)
    inner = task.build_model()
    for name, layer in tables(inner).items():
        setattr(inner, name, Bags(layer.num_features, layer.out_features, layer.bias is not None))
    model = DistributedDataParallel(inner)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True)
    batch = TensorBatch.from_numpy(network.batches(Path(arguments.source), BATCH, 2, seed=42)[arguments.rank])
    moments = []
    stop = torch.zeros(1)
    while not stop:
        optimizer.zero_grad()
        task.loss(model, batch, Progress(0, 1)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        moments.append(time.time())
        stop[0] = enough(moments, WARM_UP, arguments.seconds)
        dist.broadcast(stop, 0)  # both ranks stop together
    if arguments.rank == 0:
        print(BATCH * PER_STEP * median_rate(moments, WARM_UP), flush=True)
    dist.barrier()
    os._exit(0)  # gloo's own teardown aborts now and then


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    networks = ["SFNNv5-256", "SFNNv5", "SFNNv16", "king-buckets"]
    parser.add_argument("--networks", nargs="+", default=networks, choices=NETWORKS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each run")
    parser.add_argument("--cases", nargs="+", default=[*CASES, DDP], choices=[*CASES, DDP])
    parser.add_argument("--optimizer", default="pool.optim.Adam", help="of the pool's runs")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    for hidden in ("--source", "--meeting"):
        parser.add_argument(hidden, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank is not None:
        ddp_rank(arguments)
        return
    rates: dict[tuple[str, str], list[float]] = {
        (name, case): [] for name in arguments.networks for case in arguments.cases
    }
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "rotated.binpack"
        rotated_copies(REAL, data)
        for _ in range(arguments.repeats):
            for (name, case), found in rates.items():
                found.append(
                    ddp_rate(name, data, arguments.seconds)
                    if case == DDP
                    else pool_rate(case, NETWORKS[name], data, arguments.seconds, arguments.optimizer)
                )
    report(arguments, {key: statistics.median(found) for key, found in rates.items()})


def report(arguments: argparse.Namespace, medians: dict[tuple[str, str], float]) -> None:
    table = Table("network", "", "positions/s", "x DDP", "required", title="training, 16,384 positions a step")
    results = []
    for (name, case), rate in medians.items():
        ddp = medians.get((name, DDP))
        required = BARS.get(name) if case == "two workers" else None
        ratio = f"{rate / ddp:.2f}" if ddp else ""
        table.add_row(name, case, f"{rate:,.0f}", ratio, "" if required is None else f"{required:g}")
        results.append(
            {"network": name, "case": case, "positions_per_s": round(rate), "ddp": ddp and round(rate / ddp, 2)}
        )
    console = Console(width=100)
    console.print(table)
    two, one = medians.get((NARROW, "two workers")), medians.get((NARROW, "one worker"))
    scaling = two / one if two and one else None
    if scaling is not None:
        console.print(f"two workers in one worker's speed, {NARROW}: {scaling:.2f} (required {TWO_WORKERS})")
    print(json.dumps({"benchmark": "training", "optimizer": arguments.optimizer, "results": results, "two": scaling}))


if __name__ == "__main__":
    main()
