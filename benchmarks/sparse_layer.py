"""The sparse layer, forward and backward, against torch.nn.EmbeddingBag with a dense gradient; one thread.

Ours is measured as the pool runs it (rows of the gradient written into a slot that exists) and as an ordinary
layer (a new dense gradient each time). Both of ours have a bias, EmbeddingBag has none. The plan of the batch is
made anew each time and counts as forward. Variants take turns, so that a busy machine slows them alike; medians of
the times, and of the ratios within each turn. With --cpu-time the process's own time is taken, which on a busy machine
says more than the clock's. Freed memory is kept, as in a worker of the pool: without
(--plain-malloc) page faults for the output cost every variant more than its sums.

Then the speed at which the layer adds up rows (the bytes of all rows that the bags name, both directions, over the
whole time) stands beside that of reading the same memory over and over from each cache: the inner loop of the layer
itself, its rows in sequence. Prints tables and one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks.rotated import REAL
from loader.stream.data import open_stream
from loader.stream.schema import SparseBatch
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from pool import _native
from pool.nn.batch import SparseInput, TensorBatch
from pool.nn.sparse_linear import SparseLinear
from pool.tasks.chess.stockfish.halfka import INPUTS as NUM_FEATURES

FIELD = "features"
REQUIRED = {256: 8.0, 1024: 7.0}  # times EmbeddingBag's speed, by outputs
CACHES = {"L1": 16, "L2": 512, "L3": 8 << 10, "memory": 256 << 10}  # KiB of a table that lies there

Run = Callable[[], Tensor]  # one forward; the caller runs backward
Clock = Callable[[], float]  # seconds


class Slot:
    """A gradient slot's memory."""

    def __init__(self, weight: Tensor) -> None:
        self.memory = torch.zeros_like(weight, requires_grad=False)

    def start_gradient(self, weight: Tensor) -> tuple[Tensor, list[int]]:
        return self.memory, [len(weight)]

    def report_written(self, weight: Tensor, rows: int) -> None:
        pass

    def finish_gradient(self, weight: Tensor, finite: Tensor | bool) -> None:
        pass


def from_file(path: Path, samples: int) -> SparseBatch:
    stream = open_stream(data_config(batch_size=samples), [path], seed=0)
    return next(iter(read_batches(stream, 1)))


def fresh(sparse: SparseInput) -> SparseInput:
    """The same bags without the plan of earlier runs."""
    return replace(sparse)


def variants(sparse: SparseInput, outputs: int) -> dict[str, tuple[nn.Module, Run]]:
    pooled, ordinary = SparseLinear(NUM_FEATURES, outputs), SparseLinear(NUM_FEATURES, outputs)
    pooled.gradient_sink = Slot(pooled.weight)
    bag = nn.EmbeddingBag(NUM_FEATURES, outputs, mode="sum", include_last_offset=True)
    index, offsets = sparse.features.to(torch.int64), sparse.offsets.to(torch.int64)
    return {
        "pool": (pooled, lambda: pooled(fresh(sparse))),
        "layer": (ordinary, lambda: ordinary(fresh(sparse))),
        "EmbeddingBag": (bag, lambda: bag(index, offsets)),
    }


@dataclass(frozen=True)
class Result:
    """Medians of one variant."""

    forward: float  # ms
    backward: float  # ms
    ratio: float  # of EmbeddingBag's time to this one's


def measure(sparse: SparseInput, outputs: int, repeats: int, clock: Clock) -> dict[str, Result]:
    grad_out = torch.randn(sparse.num_bags, outputs)
    times: dict[str, list[tuple[float, float]]] = {}
    runs = variants(sparse, outputs)
    for repeat in range(repeats + 1):
        for name, (module, run) in runs.items():
            module.zero_grad()
            start = clock()
            out = run()
            middle = clock()
            torch.autograd.backward([out], [grad_out])
            end = clock()
            del out  # or the next variant takes other memory than it had before
            if repeat > 0:  # the first touches new memory
                times.setdefault(name, []).append((1e3 * (middle - start), 1e3 * (end - middle)))
    peer = times["EmbeddingBag"]
    return {
        name: Result(
            statistics.median(f for f, _ in pairs),
            statistics.median(b for _, b in pairs),
            statistics.median(sum(other) / sum(own) for other, own in zip(peer, pairs, strict=True)),
        )
        for name, pairs in times.items()
    }


def plan_milliseconds(sparse: SparseInput, repeats: int, clock: Clock) -> float:
    times = []
    for _ in range(repeats):
        start = clock()
        fresh(sparse).plan(NUM_FEATURES)
        times.append(1e3 * (clock() - start))
    return statistics.median(times)


def read_speed(kib: int, clock: Clock, repeats: int = 9) -> float:
    """GB/s at which the layer's inner loop reads a table of so many KiB again and again."""
    columns = 256
    rows = kib * 1024 // (4 * columns)
    passes = max(2, (256 << 10) // kib)
    features = torch.arange(rows).repeat(passes).to(torch.uint32)
    offsets = torch.tensor([0, len(features)]).to(torch.uint32)
    table, out = torch.zeros(rows, columns), torch.empty(1, columns)
    best = math.inf
    for _ in range(repeats):
        start = clock()
        _native.sparse_forward(table, None, offsets, features, out)
        best = min(best, clock() - start)
    return len(features) * columns * 4 / best / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=REAL, help="a binpack file")
    parser.add_argument("--samples", type=int, default=16384)
    parser.add_argument("--outputs", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--simd", choices=_native.simd_levels(), default=_native.simd_level())
    parser.add_argument("--plain-malloc", action="store_true", help="let every variant pay for fresh pages")
    parser.add_argument("--cpu-time", action="store_true", help="the process's own time instead of the clock's")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    torch.set_num_threads(1)
    if not arguments.plain_malloc:
        _native.keep_freed_memory()
    _native.set_simd_level(arguments.simd)
    sparse = TensorBatch.from_numpy(from_file(arguments.data, arguments.samples)).sparse[FIELD]
    active, touched = sparse.features.numel(), sparse.touched.numel()
    table = Table(
        "outputs", "variant", "forward ms", "backward ms", "sum ms", "EmbeddingBag / ours", "required", "GB/s",
        title=f"{arguments.samples} of {arguments.data.name}, {active} active, {touched} rows, {arguments.simd}",
    )  # fmt: skip
    results = []
    for outputs in arguments.outputs:
        for name, result in measure(sparse, outputs, arguments.repeats, clock).items():
            total = result.forward + result.backward
            speed = 2 * active * outputs * 4 / total / 1e6
            required = REQUIRED.get(outputs, 0.0) if name == "pool" else 0.0
            numbers = [f"{value:.1f}" for value in (result.forward, result.backward, total, result.ratio)]
            table.add_row(str(outputs), name, *numbers, f"{required:.0f}" if required else "", f"{speed:.0f}")
            results.append(
                {"outputs": outputs, "variant": name, "forward_ms": round(result.forward, 3),
                 "backward_ms": round(result.backward, 3), "ratio": round(result.ratio, 2), "required": required,
                 "summed_gb_per_s": round(speed, 1)}
            )  # fmt: skip
    console = Console(width=120)
    console.print(table)
    plan = plan_milliseconds(sparse, arguments.repeats, clock)
    reads = {name: round(read_speed(kib, clock), 1) for name, kib in CACHES.items()}
    console.print(f"plan of the batch, in forward's time: {plan:.1f} ms")
    console.print("reading, GB/s: " + ", ".join(f"{name} {speed:.0f}" for name, speed in reads.items()))
    line = {"benchmark": "sparse_layer", "simd": arguments.simd, "active": active, "touched": touched}
    print(json.dumps({**line, "plan_ms": round(plan, 3), "read_gb_per_s": reads, "results": results}))


if __name__ == "__main__":
    main()
