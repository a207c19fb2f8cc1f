"""A training step of a chess task without the pool: forward, loss, backward of one batch on a CPU.

Three ways: the task as it runs by default (fused), with torch's operations behind the first layer (torch head), and
with torch.nn.EmbeddingBag as first layer too (EmbeddingBag), the outside reference. Ours write the tables' gradients
into memory that exists, as in the pool; the plan of the batch is made anew each step. In one process the ways take
turns, so that a busy machine slows them alike; medians of the times, and of the ratios within each turn. Then two
processes of one thread each, of each way, for some seconds; their speeds added. With --cpu-time a process's own time is
taken, which on a busy machine says more than the clock's; two threads are left out then. Prints a table and one line
of JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks.networks import NETWORKS, Network, tables
from benchmarks.rotated import REAL, ROOT
from benchmarks.sparse_layer import Clock, Slot, fresh
from pool import _native
from pool.nn.batch import SparseInput, TensorBatch
from pool.task.task import Progress
from pool.tasks.chess.layer_stacks import Kernels
from pool.tasks.chess.training.loss import FIELD

KERNELS: dict[str, Kernels] = {  # model.kernels, by way
    "first layer fused": "fused_first_layer",
    "fused": "fused",
    "torch head": "torch",
    "EmbeddingBag": "torch",
}
WAYS = tuple(KERNELS)

Step = Callable[[], None]


class Bags(nn.Module):
    """EmbeddingBag in the place of a SparseLinear."""

    def __init__(self, features: int, outputs: int, bias: bool) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(features, outputs, mode="sum", include_last_offset=True)
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def forward(self, sparse: SparseInput) -> Tensor:
        out: Tensor = self.table(sparse.features.to(torch.int64), sparse.offsets.to(torch.int64))
        return out if self.bias is None else out + self.bias


def step_of(way: str, network: Network, batch: TensorBatch) -> Step:
    torch.manual_seed(0)
    task = network.create_task(KERNELS[way])
    model = task.build_model()
    for name, layer in tables(model).items():
        if way == "EmbeddingBag":
            setattr(model, name, Bags(layer.num_features, layer.out_features, layer.bias is not None))
        else:
            layer.gradient_sink = Slot(layer.weight)

    def step() -> None:
        sparse = {FIELD: fresh(batch.sparse[FIELD])}
        model.zero_grad()
        loss = task.loss(model, TensorBatch(batch.number, sparse, batch.dense, batch.bucket_offsets), Progress(0, 1))
        torch.autograd.backward([loss])

    return step


def clock_of(arguments: argparse.Namespace) -> Clock:
    return time.process_time if arguments.cpu_time else time.perf_counter


def load(arguments: argparse.Namespace, network: Network) -> TensorBatch:
    _native.keep_freed_memory()
    return TensorBatch.from_numpy(network.batches(arguments.data, arguments.samples, 1)[0])


def take_turns(steps: dict[str, Step], repeats: int, clock: Clock) -> dict[str, list[float]]:
    """Seconds of each step, by way."""
    times: dict[str, list[float]] = {way: [] for way in steps}
    for repeat in range(repeats + 1):
        for way, step in steps.items():
            start = clock()
            step()
            if repeat > 0:  # the first touches new memory
                times[way].append(clock() - start)
    return times


def work(arguments: argparse.Namespace) -> None:
    """One of two processes: ready, told to begin, positions/s."""
    torch.set_num_threads(1)
    network = NETWORKS[arguments.networks[0]]
    step = step_of(arguments.way, network, load(arguments, network))
    step()
    print("ready", flush=True)
    sys.stdin.readline()
    clock = clock_of(arguments)
    times = []
    end = time.perf_counter() + arguments.seconds
    while time.perf_counter() < end:
        start = clock()
        step()
        times.append(clock() - start)
    print(arguments.samples / statistics.median(times))


def two_processes(arguments: argparse.Namespace, name: str, way: str) -> float:
    command = [sys.executable, "-m", "benchmarks.nnue_step", f"--data={arguments.data}", f"--way={way}"]
    command += [
        f"--networks={name}",
        f"--samples={arguments.samples}",
        f"--seconds={arguments.seconds}",
        *["--cpu-time"] * arguments.cpu_time,
    ]
    processes = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    return sum(float(process.communicate("go\n")[0]) for process in processes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=REAL, help="a binpack file")
    parser.add_argument("--samples", type=int, default=16384)
    parser.add_argument("--networks", nargs="+", default=["SFNNv5-256", "SFNNv5"], choices=NETWORKS)
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--alone", action="store_true", help="not by two processes or two threads")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0, help="of two processes at work")
    parser.add_argument("--cpu-time", action="store_true", help="the process's own time instead of the clock's")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way is not None:
        work(arguments)
        return
    arguments.data = arguments.data.resolve()
    table = Table(
        "network", "at work", "way", "ms", "positions/s", f"{arguments.ways[-1]} / this", "required",
        title=f"{arguments.samples} positions of {arguments.data.name}, {_native.simd_level()}",
    )  # fmt: skip
    results = []

    def add(name: str, work: str, way: str, rate: float, ratio: float) -> None:
        required = NETWORKS[name].required if way == "fused" and not work.startswith("1") else 0.0
        milliseconds = 1e3 * arguments.samples / rate
        goal = f"{required:,.0f}" if required else ""
        table.add_row(name, work, way, f"{milliseconds:.1f}", f"{rate:,.0f}", f"{ratio:.2f}", goal)
        results.append(
            {"network": name, "at_work": work, "way": way, "positions_per_s": round(rate), "ratio": round(ratio, 2),
             "required": required}
        )  # fmt: skip

    for name in arguments.networks:
        network = NETWORKS[name]
        batch = load(arguments, network)
        steps = {way: step_of(way, network, batch) for way in arguments.ways}
        for threads in (1,) if arguments.cpu_time or arguments.alone else (1, 2):
            torch.set_num_threads(threads)
            times = take_turns(steps, arguments.repeats, clock_of(arguments))
            for way, seconds in times.items():
                ratios = [peer / own for peer, own in zip(times[arguments.ways[-1]], seconds, strict=True)]
                rate = arguments.samples / statistics.median(seconds)
                add(name, f"{threads} thread{'s' * (threads > 1)}", way, rate, statistics.median(ratios))
        if arguments.alone:
            continue
        rates = {way: two_processes(arguments, name, way) for way in arguments.ways}
        for way, rate in rates.items():
            add(name, "2 processes", way, rate, rate / rates[arguments.ways[-1]])
    Console(width=120).print(table)
    print(json.dumps({"benchmark": "nnue_step", "simd": _native.simd_level(), "results": results}))


if __name__ == "__main__":
    main()
