"""The sparse layer with few outputs and a million rows, against torch.nn.EmbeddingBag(sparse=True); one thread.

What logistic regression (one output), factorization machines and click models (8 to 32) ask of the layer: rows so short
that finding them costs more than adding them. Ours is measured as the pool runs it: the plan of the batch, if it has
one, is made anew and counts as forward, and the gradient is written by rows into a slot. EmbeddingBag's sparse gradient
names a row once for each use of it; `coalesced` adds up the uses, as SparseAdam does, and is what the slot holds.
Features are drawn uniformly or, as in real data, with low numbers far more often. All variants read the same table and
take turns, in an order that changes, so that each finds the caches as each other leaves them. The times are the least
of all turns: they are so short that whatever else the machine does lengthens many of them. Prints a table and one line
of JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks.sparse_layer import Slot, fresh
from loader.stream.schema import BatchSchema, SparseBatch, SparseField
from loader.stream.slots import allocate_slots, write_batch
from pool import _native
from pool.nn.batch import SparseInput, TensorBatch
from pool.nn.sparse_linear import SparseLinear

FIELD = "features"
SKEW = {"uniform": 1.0, "skewed": 4.0}  # feature = rows * u^SKEW

Backward = Callable[[], Any]
Turn = Callable[[SparseInput, Tensor], Backward]  # bags without a plan, gradient of the output: runs forward


def make_batch(rows: int, active: int, samples: int, skew: float, *, values: bool) -> SparseInput:
    """`active` features a sample, fewer where one was drawn twice."""
    random = np.random.default_rng(0)
    drawn = np.sort(np.minimum((rows * random.random((samples, active)) ** skew).astype(np.int64), rows - 1), axis=1)
    keep = np.ones_like(drawn, bool)
    keep[:, 1:] = drawn[:, 1:] != drawn[:, :-1]
    offsets, features = np.concatenate([[0], np.cumsum(keep.sum(axis=1))]), drawn[keep]
    field = SparseField(FIELD, rows, active, values=values)
    schema = BatchSchema(samples, (field,), ())
    (slot,) = allocate_slots(schema, 1)
    weights = (random.random(len(features)).astype(np.float32),) if values else ()
    write_batch(schema, slot, 0, {FIELD: (offsets, features, *weights)}, {})
    return TensorBatch.from_numpy(SparseBatch.view(schema, slot)).sparse[FIELD]


def pool_turn(layer: SparseLinear) -> Turn:
    def turn(sparse: SparseInput, grad_out: Tensor) -> Backward:
        out = layer(sparse)
        return lambda: torch.autograd.backward([out], [grad_out])

    return turn


def bag_turn(bag: nn.EmbeddingBag, sparse: SparseInput, *, coalesced: bool) -> Turn:
    index, offsets = sparse.features.to(torch.int64), sparse.offsets.to(torch.int64)

    def turn(_: SparseInput, grad_out: Tensor) -> Backward:
        out = bag(index, offsets, per_sample_weights=sparse.values)

        def backward() -> None:
            torch.autograd.backward([out], [grad_out])
            assert bag.weight.grad is not None
            if coalesced:
                bag.weight.grad.coalesce()

        return backward

    return turn


def measure(sparse: SparseInput, rows: int, outputs: int, repeats: int) -> dict[str, dict[str, float]]:
    """Of each variant: forward, backward (ms) and how many times ours is as fast."""
    layer = SparseLinear(rows, outputs)
    layer.gradient_sink = Slot(layer.weight)
    bag = nn.EmbeddingBag(rows, outputs, mode="sum", include_last_offset=True, sparse=True)
    bag.weight.data = layer.weight.data
    turns = {
        "pool": pool_turn(layer),
        "EmbeddingBag": bag_turn(bag, sparse, coalesced=False),
        "coalesced": bag_turn(bag, sparse, coalesced=True),
    }
    grad_out = torch.randn(sparse.num_bags, outputs)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in turns}
    for repeat in range(repeats + 3):
        names = list(turns)
        for name in names[repeat % 3 :] + names[: repeat % 3]:
            layer.zero_grad()
            bag.zero_grad()
            bags = fresh(sparse)
            start = time.perf_counter()
            backward = turns[name](bags, grad_out)
            middle = time.perf_counter()
            backward()
            end = time.perf_counter()
            del backward
            if repeat >= 3:  # the first touch new memory
                times[name].append((1e3 * (middle - start), 1e3 * (end - middle)))
    return {
        name: {
            "forward_ms": min(f for f, _ in pairs),
            "backward_ms": min(b for _, b in pairs),
            "ratio": min(map(sum, pairs)) / min(map(sum, times["pool"])),
        }
        for name, pairs in times.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--active", type=int, nargs="+", default=[25, 39])
    parser.add_argument("--samples", type=int, nargs="+", default=[2000, 8192])
    parser.add_argument("--outputs", type=int, nargs="+", default=[1, 8, 16, 32])
    parser.add_argument("--values", action="store_true", help="a value for each active feature")
    parser.add_argument("--repeats", type=int, default=60)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    _native.keep_freed_memory()
    table = Table("features", "active", "samples", "outputs", "variant", "forward ms", "backward ms", "times ours")
    results = []
    for drawn, skew in SKEW.items():
        for active, samples in zip(arguments.active, arguments.samples, strict=True):
            sparse = make_batch(arguments.rows, active, samples, skew, values=arguments.values)
            for outputs in arguments.outputs:
                for name, found in measure(sparse, arguments.rows, outputs, arguments.repeats).items():
                    numbers = [f"{found[key]:.3f}" for key in ("forward_ms", "backward_ms")]
                    place = [drawn, str(active), str(samples), str(outputs)] if name == "pool" else [""] * 4
                    table.add_row(*place, name, *numbers, f"{found['ratio']:.2f}")
                    results.append(
                        {"drawn": drawn, "active": active, "samples": samples, "outputs": outputs, "variant": name}
                        | {key: round(value, 3) for key, value in found.items()}
                    )
    Console(width=120).print(table)
    print(json.dumps({"benchmark": "narrow_layer", "values": arguments.values, "results": results}))


if __name__ == "__main__":
    main()
