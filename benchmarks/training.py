"""Training the stockfish task for real: `pool train`, loader included, against torch's DistributedDataParallel.

A step is 16,384 positions as two batches of 8,192. The pool: its processes as a user starts them, data from a file
(`rotated`), two CPU workers of one thread each, one of one thread, one of two. DistributedDataParallel: two processes
of one thread each over gloo, the same network with torch.nn.EmbeddingBag as its first layer, fused Adam, each
process's batch in memory before it begins. All take turns; medians over the turns of each run's median step, from the
second second on. Prints a table and one line of JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from rich.console import Console
from rich.table import Table
from torch.nn.parallel import DistributedDataParallel

from benchmarks.nnue_step import Bags
from benchmarks.rotated import REAL, ROOT, rotated_copies
from loader.batch.slots import read_batches
from loader.sources import data_config, open_stream
from pool import _native
from pool.nn.batch import TensorBatch
from pool.tasks.chess.training.loss_config import LossConfig
from pool.tasks.stockfish import create_task
from pool.tasks.stockfish.config import ModelConfig
from pool.tasks.task import Progress

BATCH, PER_STEP = 8192, 2
LEARNING_RATE = 1e-3
WARM_UP = 1.0  # seconds that are not counted
DDP = "DistributedDataParallel"
CASES = {"two workers": ("cpu", "cpu"), "one worker": ("cpu",), "one worker, two threads": ("cpu",)}
BARS = {256: 6.0, 1024: 10.0}  # two workers' speed, in DistributedDataParallel's
TWO_WORKERS = 1.8  # their speed, in that of one worker, at l1 = 256


def settings(case: str, l1: int, data: Path, dir: Path, optimizer: str) -> str:
    """The config file of a run of the pool that is stopped from outside."""
    return f"""
task = "stockfish"
run.dir = "{dir}"
data.train = ["{data}"]
data.chess.features = "HalfKAv2_hm"
data.batch_size = {BATCH}
data.threads = 1
model.l1 = {l1}
optimizer.name = "{optimizer}"
optimizer.args = {{ lr = {LEARNING_RATE}{", fused = true" if optimizer == "torch.optim.Adam" else ""} }}
train.steps = 1000000
train.batches_per_step = {PER_STEP}
train.checkpoint_every = 0
pool.devices = {json.dumps(CASES[case])}
pool.threads = {2 if "two threads" in case else 1}
"""


def pool_rate(case: str, l1: int, data: Path, seconds: float, optimizer: str) -> float:
    """Positions a second of a run of the pool."""
    with tempfile.TemporaryDirectory() as folder:
        dir = Path(folder) / "run"
        config = Path(folder) / "run.toml"
        config.write_text(settings(case, l1, data, dir, optimizer), encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "-m", "pool", "train", str(config)], cwd=ROOT, stdout=subprocess.DEVNULL
        )
        metrics = dir / "metrics.jsonl"
        while not (metrics.exists() and metrics.stat().st_size):
            if process.poll() is not None:
                raise SystemExit(f"pool train ended with {process.returncode}")
            time.sleep(0.05)
        time.sleep(seconds)
        lines = metrics.read_text(encoding="utf-8").splitlines()
        process.kill()
        process.wait()
        return rate_of([json.loads(line)["time"] for line in lines])


def rate_of(moments: Sequence[float]) -> float:
    """Positions a second, from when each step was done: the median of what is left after the warm-up."""
    later = [moment for moment in moments if moment > moments[0] + WARM_UP]
    if len(later) < 3:
        raise SystemExit(f"{len(moments)} steps are too few: raise --seconds")
    between = [second - first for first, second in itertools.pairwise(later)]
    return BATCH * PER_STEP / statistics.median(between)


def ddp_rate(l1: int, data: Path, seconds: float) -> float:
    with tempfile.NamedTemporaryFile() as meeting:
        command = [
            sys.executable,
            "-m",
            "benchmarks.training",
            f"--ddp-l1={l1}",
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
    task = create_task(ModelConfig(l1=arguments.ddp_l1, kernels="torch"), LossConfig())
    torch.manual_seed(0)
    inner = task.build_model()
    for name in ("transformer", "psqt"):
        layer = getattr(inner, name)
        setattr(inner, name, Bags(layer.num_features, layer.out_features, layer.bias is not None))
    model = DistributedDataParallel(inner)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True)
    stream = open_stream(data_config(batch_size=BATCH), [Path(arguments.source)], 42)
    batch = [TensorBatch.from_numpy(each) for each in read_batches(stream, 2)][arguments.rank]
    moments = []
    stop = torch.zeros(1)
    while not stop:
        optimizer.zero_grad()
        task.loss(model, batch, Progress(0, 1)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        moments.append(time.time())
        stop[0] = moments[-1] > moments[0] + WARM_UP + arguments.seconds
        dist.broadcast(stop, 0)  # both ranks stop together
    if arguments.rank == 0:
        print(rate_of(moments), flush=True)
    dist.barrier()
    os._exit(0)  # gloo's own teardown aborts now and then


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--l1", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each run")
    parser.add_argument("--cases", nargs="+", default=[*CASES, DDP], choices=[*CASES, DDP])
    parser.add_argument("--optimizer", default="pool.optim.Adam", help="of the pool's runs")
    for hidden in ("--rank", "--ddp-l1"):
        parser.add_argument(hidden, type=int, help=argparse.SUPPRESS)
    for hidden in ("--source", "--meeting"):
        parser.add_argument(hidden, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank is not None:
        ddp_rank(arguments)
        return
    rates: dict[tuple[int, str], list[float]] = {(l1, case): [] for l1 in arguments.l1 for case in arguments.cases}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "rotated.binpack"
        rotated_copies(REAL, data)
        for _ in range(arguments.repeats):
            for (l1, case), found in rates.items():
                found.append(
                    ddp_rate(l1, data, arguments.seconds)
                    if case == DDP
                    else pool_rate(case, l1, data, arguments.seconds, arguments.optimizer)
                )
    report(arguments, {key: statistics.median(found) for key, found in rates.items()})


def report(arguments: argparse.Namespace, medians: dict[tuple[int, str], float]) -> None:
    table = Table("l1", "", "positions/s", "x DDP", "required", title="training, 16,384 positions a step")
    results = []
    for (l1, case), rate in medians.items():
        ddp = medians.get((l1, DDP))
        required = BARS.get(l1) if case == "two workers" else None
        ratio = f"{rate / ddp:.2f}" if ddp else ""
        table.add_row(str(l1), case, f"{rate:,.0f}", ratio, "" if required is None else f"{required:g}")
        results.append({"l1": l1, "case": case, "positions_per_s": round(rate), "ddp": ddp and round(rate / ddp, 2)})
    console = Console(width=100)
    console.print(table)
    two, one = medians.get((256, "two workers")), medians.get((256, "one worker"))
    scaling = two / one if two and one else None
    if scaling is not None:
        console.print(f"two workers in one worker's speed, l1 = 256: {scaling:.2f} (required {TWO_WORKERS})")
    print(json.dumps({"benchmark": "training", "optimizer": arguments.optimizer, "results": results, "two": scaling}))


if __name__ == "__main__":
    main()
