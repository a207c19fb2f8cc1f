"""Integer networks of engines, as commands look at them whatever family they are of. Free of torch.

The module of a task names one with its networks, NETWORKS: see `Family`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from pool.tasks.chess.positions import Block, Inputs, Position
from pool.tasks.chess.quantization import Ints, Rounding

if TYPE_CHECKING:
    from torch import nn

    from pool.config.tree import Config


@dataclass(frozen=True)
class Evaluation:
    """Numbers of n positions, from the point of view of the side to move."""

    bucket: Ints  # [n], the output bucket in use
    terms: Mapping[str, Ints]  # by name: [n, buckets], what each bucket's value is made of; none if it is one sum
    values: Ints  # [n, buckets], internal units
    value: Ints  # [n], of the bucket in use
    pawns: npt.NDArray[np.float64]  # [n], the value as the engine prints it


class Network(Protocol):
    """The integers of an engine's network."""

    @property
    def inputs(self) -> Inputs:
        """The inputs of each perspective."""

    @property
    def units(self) -> str:
        """The unit of the value, in words."""

    @property
    def in_centipawns(self) -> bool:
        """True if a hundred units are a pawn, False if they are Stockfish's internal units."""

    @property
    def units_of_terms(self) -> str:
        """The unit of each of the terms, in words; empty if there are none."""

    def evaluate(self, positions: Sequence[Position]) -> Evaluation:
        """Evaluates each position in all buckets."""

    def values_of(self, block: Block, threads: int = 1) -> Ints:
        """Returns `Evaluation.value` of n positions [n], without what else an Evaluation has: for many of them."""


class FileNetwork(Network, Protocol):
    """A network that one file holds, whose layers can be looked at."""

    @property
    def tensors(self) -> Mapping[str, npt.NDArray[Any]]:
        """All its numbers, by name."""

    @property
    def description(self) -> str:
        """Text that the file carries; bytes that are not UTF-8 as lone surrogates."""

    def activations(self, positions: Sequence[Position]) -> npt.NDArray[Any]:
        """Returns what leaves the first layer, [n, inputs of the next layer], the own side's outputs first."""

    def facts(self) -> Facts:
        """Returns what `pool inspect` prints."""

    def boards(self) -> Boards | None:
        """Returns the first layer as boards; None if its inputs are no pieces on squares."""

    def settings(self) -> dict[str, Any]:
        """Returns the sections of a config that trains such a network."""


class Family(Protocol):
    """The module with a task's networks. Importing it must not import torch."""

    SUFFIXES: Sequence[str]  # of the names of its files

    def read_network(self, path: Path, config: Config | None) -> FileNetwork:
        """Reads a file; `config`: of such a network, if the user has named one. Raises DataError, PoolError."""


@runtime_checkable
class NetworkTask(Protocol):
    """A task whose models become integer networks."""

    def network(self, model: nn.Module, description: str = "") -> FileNetwork:
        """Returns the network that a model would be exported as. Raises ValueError if a value doesn't fit."""


@dataclass(frozen=True)
class TensorFacts:
    """The numbers of one array, in short."""

    name: str
    shape: tuple[int, ...]
    kind: str  # int8, int16, int32, float32
    smallest: int | float
    largest: int | float
    limits: tuple[int, int] | None  # the smallest and the largest integer that the array may have; None: floats
    used: float  # the largest magnitude by that of these; 0 for floats
    clipped: int  # numbers at either end of the range that training keeps them in; 0 if it keeps them in none
    zeros: float  # share of the numbers


@dataclass(frozen=True)
class Facts:
    """The contents of a network file, in short."""

    about: Mapping[str, str | int]  # version, engine, widths
    tensors: Sequence[TensorFacts]
    dead: Mapping[str, tuple[int, int]]  # by layer: outputs that are 0 in any position, of how many


@dataclass(frozen=True)
class Boards:
    """A first layer's rows as boards: what a piece on each square adds, by the square of the own king."""

    pieces: Sequence[str]
    kings: Sequence[Sequence[int]]  # [ranks][files] from the first on: which bucket a king there has
    weights: npt.NDArray[Any]  # [buckets, pieces, 64, outputs], integers
    one: float  # the integer that 1.0 is
    first_file: str = "a"
    worth: npt.NDArray[np.float64] | None = None  # [buckets, pieces, 64, output buckets], internal units; if it has any


def tensor_facts(name: str, array: npt.NDArray[Any], rule: Rounding | None) -> TensorFacts:
    """Returns the facts of an array that is stored by that rule, or as floats."""
    kind, zeros = array.dtype.name, 1 - int(np.count_nonzero(array)) / array.size
    if rule is None:
        return TensorFacts(name, array.shape, kind, float(array.min()), float(array.max()), None, 0.0, 0, zeros)
    low, high = rule.bounds
    smallest, largest = int(array.min()), int(array.max())
    clipped = int(np.count_nonzero((array <= low) | (array >= high))) if rule.clips else 0
    used = max(-smallest, largest) / max(-low, high)
    return TensorFacts(name, array.shape, kind, smallest, largest, (low, high), used, clipped, zeros)
