"""The chain model of a step: its bytes, one copy after the other, at the speeds that this machine's cards have.

Nothing overlaps, and no launch, wait or host costs anything. So it says where a step's time must go, and its share of
the measured time how much else there is. The network is Stockfish 15.1's; its dense layers are left out, as their bytes
are less than a hundredth of the table's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from benchmarks.gpu import pool_runs
from benchmarks.gpu.machine import Machine
from benchmarks.gpu.report import Line
from benchmarks.gpu.sparse_layer import bags, floor_bytes
from pool.tasks.chess.stockfish.halfka import INPUTS as NUM_FEATURES

_STATE = 6  # numbers that Adam reads and writes of each weight: itself and two moments
_LINK_BYTES = 1 << 26


@dataclass(frozen=True)
class Speeds:
    """GB/s."""

    memory: float  # of a card, read and written
    to_host: float  # page-locked
    to_card: float  # from one card to another; 0: there is one


@dataclass(frozen=True)
class Step:
    """Bytes of a step in which each card computes one batch."""

    layer: int  # what the sparse layer reads and writes, forward and backward
    touched: int  # the rows of the table that a batch touches
    table: int

    def ms(self, speeds: Speeds, cards: int, exchange: str, where: str = "") -> float:
        """`where`: which of several cards add up and step, first or all."""
        if exchange == "host":  # on each card's link; then the CPU's memory, which is not counted
            return self.layer / speeds.memory / 1e6 + (self.touched + self.table) / speeds.to_host / 1e6
        others, shares, links = cards - 1, 1, 0.0
        if where == "all":  # a card sends the rows of the others' shares, then its own share to each
            shares, links = cards, (self.touched + self.table) * others / cards / speeds.to_card
        elif others:  # all pass the link of the first card, on the way to the host's memory
            links = (self.touched * others + self.table) / speeds.to_host
        summed = 2 * self.touched * cards + _STATE * self.table
        return ((self.layer + summed / shares) / speeds.memory + links) / 1e6


def speeds(machine: Machine) -> Speeds:
    numbers = _LINK_BYTES // 4 if machine.is_cuda else 1 << 14
    own = torch.zeros(numbers, device=machine.device)
    host = torch.zeros(numbers).pin_memory() if machine.is_cuda else torch.zeros(numbers)
    to_host = 4 * numbers / machine.device_ms(lambda: host.copy_(own, non_blocking=True)) / 1e6
    to_card = 0.0
    if machine.count > 1:
        other = torch.zeros(numbers, device=torch.device(machine.kind, 1))
        to_card = 4 * numbers / machine.device_ms(lambda: other.copy_(own, non_blocking=True)) / 1e6
    return Speeds(machine.copy_speed(), to_host, to_card)


def lines(machine: Machine) -> Iterator[Line]:
    """Of all runs that were measured."""
    sparse, found, width = bags(machine), speeds(machine), machine.size.width
    step = Step(floor_bytes(sparse, width), 4 * width * sparse.touched.numel(), 4 * width * NUM_FEATURES)
    yield Line(
        "speeds of the model", f"{found.memory:,.0f} GB/s, {found.to_host:,.0f} to the host, {found.to_card:,.0f}"
    )
    runs = [(1, exchange, "") for exchange in pool_runs.EXCHANGES]
    runs += [(count, *exchange) for exchange in pool_runs.OF_SEVERAL for count in pool_runs.counts(machine)]
    for cards, exchange, where in runs:
        modelled = cards * machine.size.samples / step.ms(found, cards, exchange, where) * 1e3
        measured = pool_runs.positions_per_second(machine, range(cards), exchange, where)
        words = f"{measured / modelled:.2f} of {modelled:,.0f} positions/s"
        yield Line(f"{cards} x {exchange} {where}".rstrip() + ", of the model", words)
