"""The sparse layer on one card: against its floor in bytes, torch.nn.EmbeddingBag, and atomic additions.

The floor: forward reads the rows that the bags name and writes the output, backward reads the output's gradient once
for each name and writes each touched row once, at the speed of a copy within the card's memory. Caches can beat it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from benchmarks.gpu.atomic import AtomicLayer
from benchmarks.gpu.machine import Machine
from benchmarks.gpu.report import Line
from benchmarks.rotated import SAMPLE
from benchmarks.sparse_layer import FIELD, from_file
from pool.kernels.backend import backend_of
from pool.nn.batch import SparseInput, TensorBatch
from pool.nn.sparse_linear import SparseLinear
from pool.tasks.chess.stockfish.halfka import INPUTS as NUM_FEATURES

FLOOR, EMBEDDING_BAG, ATOMIC = 0.6, 3.0, 1.5  # aims


class Rows:
    """Takes the touched rows, as an exchange does."""

    def accept_rows(self, weight: Tensor, rows: Tensor) -> None:
        pass


def bags(machine: Machine) -> SparseInput:
    batch = TensorBatch.from_numpy(from_file(SAMPLE, machine.size.samples))
    return batch.sparse[FIELD].copy().to(machine.device)


def floor_bytes(sparse: SparseInput, width: int) -> int:
    active, touched = sparse.features.numel(), sparse.touched.numel()
    return 4 * width * (active + sparse.num_bags + active + touched)


def ours_ms(machine: Machine, sparse: SparseInput, width: int) -> float:
    layer = SparseLinear(NUM_FEATURES, width).to(machine.device)
    layer.rows_sink = Rows()
    gradient = torch.randn(sparse.num_bags, width).to(machine.device)
    return machine.device_ms(lambda: torch.autograd.backward([layer(sparse)], [gradient]))


def embedding_bag_ms(machine: Machine, sparse: SparseInput, width: int) -> float:
    layer = nn.EmbeddingBag(NUM_FEATURES, width, mode="sum", include_last_offset=True).to(machine.device)
    index, offsets = sparse.features.to(torch.int64), sparse.offsets.to(torch.int64)
    gradient = torch.randn(sparse.num_bags, width).to(machine.device)

    def step() -> None:
        layer.weight.grad = None
        torch.autograd.backward([layer(index, offsets)], [gradient])

    return machine.device_ms(step)


def atomic_ms(machine: Machine, sparse: SparseInput, width: int) -> float:
    """On a fake device by torch's own operations."""
    table = torch.randn(NUM_FEATURES, width).to(machine.device)
    gradient = torch.randn(sparse.num_bags, width).to(machine.device)
    if machine.is_cuda:
        layer = AtomicLayer(table, sparse)
        return machine.device_ms(lambda: (layer.forward(), layer.backward(gradient)))
    counts = (sparse.offsets.cpu().to(torch.int64).diff()).to(machine.device)
    names = torch.repeat_interleave(torch.arange(sparse.num_bags), counts.cpu()).to(machine.device)
    numbers = sparse.features.to(torch.int64)
    return machine.device_ms(lambda: torch.zeros_like(table).index_add_(0, numbers, gradient[names]))


def lines(machine: Machine) -> Iterator[Line]:
    sparse, speed = bags(machine), machine.copy_speed()
    yield Line("a copy within the card's memory", f"{speed:,.0f} GB/s read and written")
    if machine.is_cuda and backend_of(machine.device) != "cuda":
        yield Line("kernels", "failed: none can be run, so torch's operations are measured", reached=False)
    for width in machine.size.widths:
        what = f"sparse layer, {width} outputs"
        ours = ours_ms(machine, sparse, width)
        floor = floor_bytes(sparse, width) / speed / 1e6
        found = f"{floor / ours:.0%} ({ours:.2f} ms, floor {floor:.2f})"
        yield Line(f"{what}: of its floor in bytes", found, f"{FLOOR:.0%}", floor / ours >= FLOOR)
        for name, other, aim in (
            ("EmbeddingBag", embedding_bag_ms, EMBEDDING_BAG),
            ("atomic additions", atomic_ms, ATOMIC),
        ):
            theirs = other(machine, sparse, width)
            found = f"{theirs / ours:.2f} times as fast ({theirs:.2f} ms)"
            yield Line(f"{what}: against {name}", found, f"{aim:g}", theirs / ours >= aim)
