"""The sparse layer, forward and backward, against torch.nn.EmbeddingBag with a dense gradient; one thread.

Ours is measured as the pool runs it (rows of the gradient written into a slot that exists) and as an ordinary
layer (a new dense gradient each time). Both of ours have a bias, EmbeddingBag has none. Variants take turns,
so that a busy machine slows them alike; medians. Freed memory is kept, as in a worker of the pool: without
(--plain-malloc) page faults for the output cost every variant more than its sums. Prints a table and one line
of JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from loader.config import DataConfig
from loader.schema import BatchSchema, SparseBatch, SparseField
from loader.slots import allocate_slots, read_batches, write_batch
from loader.sources import open_stream
from pool import _native
from pool.nn.batch import SparseInput, TensorBatch
from pool.nn.sparse_linear import SparseLinear

GROUPS, GROUP = 32, 704  # king squares and features of each, as in HalfKAv2_hm
NUM_FEATURES = GROUPS * GROUP
FIELD = "features"

Run = Callable[[], Tensor]  # one forward; the caller runs backward


class Slot:
    """A gradient slot's memory."""

    def __init__(self, weight: Tensor) -> None:
        self.memory = torch.zeros_like(weight, requires_grad=False)

    def begin(self, weight: Tensor) -> Tensor:  # noqa: ARG002
        return self.memory

    def done(self, weight: Tensor, finite: Tensor) -> None:
        pass


def like_chess(samples: int) -> SparseBatch:
    """Two bags a sample; both a bag's group and its features are skewed about as in real games."""
    random = np.random.default_rng(0)
    bags = 2 * samples
    share = (np.arange(GROUPS) + 1.0) ** -2.0
    group = random.choice(GROUPS, bags, p=share / share.sum())
    within = (GROUP * random.random((bags, 32)) ** 3.0).astype(np.int64)
    within.sort(axis=1)
    keep = np.arange(32) < random.integers(16, 33, bags)[:, None]
    keep[:, 1:] &= within[:, 1:] != within[:, :-1]
    # which numbers are frequent differs from group to group
    order = np.stack([random.permutation(GROUP) for _ in range(GROUPS)])
    features = order[group[:, None], within] + GROUP * group[:, None]
    schema = BatchSchema(samples, (SparseField(FIELD, NUM_FEATURES, max_active=32, bags_per_sample=2),), ())
    (slot,) = allocate_slots(schema, 1)
    offsets = np.concatenate([[0], np.cumsum(keep.sum(axis=1))])
    write_batch(schema, slot, 0, {FIELD: (offsets, features[keep])}, {})
    return SparseBatch.view(schema, slot)


def from_file(path: Path, samples: int) -> SparseBatch:
    stream = open_stream(DataConfig(batch_size=samples), [path], seed=0)
    return next(iter(read_batches(stream, 1)))


def variants(sparse: SparseInput, outputs: int) -> dict[str, tuple[nn.Module, Run]]:
    pooled, ordinary = SparseLinear(NUM_FEATURES, outputs), SparseLinear(NUM_FEATURES, outputs)
    pooled.gradient_sink = Slot(pooled.weight)
    bag = nn.EmbeddingBag(NUM_FEATURES, outputs, mode="sum", include_last_offset=True)
    index, offsets = sparse.features.to(torch.int64), sparse.offsets.to(torch.int64)
    return {
        "pool": (pooled, lambda: pooled(sparse)),
        "layer": (ordinary, lambda: ordinary(sparse)),
        "EmbeddingBag": (bag, lambda: bag(index, offsets)),
    }


def measure(sparse: SparseInput, outputs: int, repeats: int) -> dict[str, tuple[float, float]]:
    """Median milliseconds of (forward, backward) by variant."""
    grad_out = torch.randn(sparse.num_bags, outputs)
    times: dict[str, list[tuple[float, float]]] = {}
    runs = variants(sparse, outputs)
    for repeat in range(repeats + 1):
        for name, (module, run) in runs.items():
            module.zero_grad()
            start = time.perf_counter()
            out = run()
            middle = time.perf_counter()
            torch.autograd.backward([out], [grad_out])
            end = time.perf_counter()
            if repeat > 0:  # the first touches new memory
                times.setdefault(name, []).append((1e3 * (middle - start), 1e3 * (end - middle)))
    return {
        name: (statistics.median(f for f, _ in pairs), statistics.median(b for _, b in pairs))
        for name, pairs in times.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a binpack file; without it random bags that look like chess")
    parser.add_argument("--samples", type=int, default=16384)
    parser.add_argument("--outputs", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--simd", choices=_native.simd_levels(), default=_native.simd_level())
    parser.add_argument("--plain-malloc", action="store_true", help="let every variant pay for fresh pages")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if not arguments.plain_malloc:
        _native.keep_freed_memory()
    _native.set_simd_level(arguments.simd)
    batch = from_file(arguments.data, arguments.samples) if arguments.data else like_chess(arguments.samples)
    sparse = TensorBatch.from_numpy(batch).sparse[FIELD]
    active, touched = sparse.features.numel(), sparse.touched.numel()
    table = Table(
        "outputs", "variant", "forward ms", "backward ms", "sum ms", "EmbeddingBag / ours",
        title=f"{arguments.samples} samples, {active} active, {touched} rows touched, {arguments.simd}",
    )  # fmt: skip
    results = []
    for outputs in arguments.outputs:
        medians = measure(sparse, outputs, arguments.repeats)
        peer = sum(medians["EmbeddingBag"])
        for name, (forward, backward) in medians.items():
            ratio = peer / (forward + backward)
            numbers = [f"{value:.1f}" for value in (forward, backward, forward + backward, ratio)]
            table.add_row(str(outputs), name, *numbers)
            results.append(
                {"outputs": outputs, "variant": name, "forward_ms": round(forward, 3),
                 "backward_ms": round(backward, 3), "ratio": round(ratio, 2)}
            )  # fmt: skip
    Console().print(table)
    line = {"benchmark": "sparse_layer", "simd": arguments.simd, "active": active, "touched": touched}
    print(json.dumps({**line, "results": results}))


if __name__ == "__main__":
    main()
