"""How long backward holds up the host, in milliseconds of the host for a millisecond of the card: of the network as the
pool trains it, and of the formulation that this project grew from, a sparse tensor times a dense table.

Several steps are queued, so that the card always has work: a host that is free meanwhile can feed other cards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from benchmarks.gpu.machine import Machine
from benchmarks.gpu.network import batches, task_of
from benchmarks.gpu.report import Line
from benchmarks.gpu.sparse_layer import Rows
from benchmarks.networks import tables
from benchmarks.sparse_layer import FIELD
from pool.task.task import Progress
from pool.tasks.chess.stockfish.halfka import INPUTS as NUM_FEATURES

OURS, THEIRS = 0.1, 1.0  # aim of the one, at least what the other is expected to show
_QUEUED = 8  # steps

Forward = Callable[[], Tensor]


def share(machine: Machine, forward: Forward) -> tuple[float, float, float]:
    """Host's and card's milliseconds of one backward, and their ratio."""
    for _ in range(2):
        forward().backward()
    machine.synchronize()
    begins, ends = ([torch.Event(machine.device, enable_timing=True) for _ in range(_QUEUED)] for _ in range(2))
    seconds = 0.0
    for begin, end in zip(begins, ends, strict=True):
        loss = forward()
        begin.record()
        before = time.perf_counter()
        loss.backward()
        seconds += time.perf_counter() - before
        end.record()
    machine.synchronize()
    card = sum(begin.elapsed_time(end) for begin, end in zip(begins, ends, strict=True)) / _QUEUED
    host = 1e3 * seconds / _QUEUED
    return host, card, host / max(card, 1e-6)


def ours(machine: Machine) -> Forward:
    """The whole network with its loss."""
    task, (batch,) = task_of(machine), batches(machine, 1)
    torch.manual_seed(0)
    model = task.build_model().to(machine.device)
    for layer in tables(model).values():
        layer.rows_sink = Rows()
    there = batch.to(machine.device)
    return lambda: task.loss(model, there, Progress(0, 1))


def theirs(machine: Machine) -> Forward:
    """A sparse tensor times a table, as trainers of such networks had it; in a dry run on the CPU."""
    device = machine.device if machine.is_cuda else torch.device("cpu")
    sparse = batches(machine, 1)[0].sparse[FIELD]
    counts = sparse.offsets.to(torch.int64).diff()
    names = torch.repeat_interleave(torch.arange(sparse.num_bags), counts)
    index = torch.stack([names, sparse.features.to(torch.int64)]).to(device)
    ones = torch.ones(index.shape[1], device=device)
    table = torch.randn(NUM_FEATURES, machine.size.width, device=device, requires_grad=True)
    shape = sparse.num_bags, NUM_FEATURES

    def forward() -> Tensor:
        table.grad = None
        matrix = torch.sparse_coo_tensor(index, ones, shape, device=device, check_invariants=False)
        out: Tensor = torch.sparse.mm(matrix, table).clamp(0, 1).sum()
        return out

    return forward


def lines(machine: Machine) -> Iterator[Line]:
    host, card, ratio = share(machine, ours(machine))
    found = f"{ratio:.0%} ({host:.2f} ms of the host, {card:.2f} of the card)"
    yield Line("host's time in backward, whole network", found, f"at most {OURS:.0%}", ratio <= OURS)
    host, card, ratio = share(machine, theirs(machine))
    found = f"{ratio:.0%} ({host:.2f} ms of the host, {card:.2f} of the card)"
    yield Line("the same, sparse tensor times table", found, f"the complaint: over {THEIRS:.0%}")
