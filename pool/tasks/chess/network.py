"""Defines the interface of an engine's integer network to the commands that inspect networks, whatever task they are
of. Free of torch.

The module of a task names a module with its networks as NETWORKS (see `Family`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from pool.tasks.chess.positions import Inputs, Position, PositionBatch
from pool.tasks.chess.quantization import Ints, Rounding

if TYPE_CHECKING:
    from torch import nn

    from pool.config.tree import Config


@dataclass(frozen=True)
class Evaluation:
    """The results of evaluating n positions, from the point of view of the side to move."""

    bucket: Ints  # [n], the output bucket in use
    terms: Mapping[str, Ints]  # by name: [n, buckets], parts of each bucket's value; empty if it is one sum
    values: Ints  # [n, buckets], in Network.units
    value: Ints  # [n], of the bucket in use
    pawns: npt.NDArray[np.float64]  # [n], the value as the engine prints it


class Network(Protocol):
    """Evaluates positions with the integers of an engine's network."""

    @property
    def inputs(self) -> Inputs:
        """The feature set of each perspective."""

    @property
    def units(self) -> str:
        """The unit of `Evaluation.values`, as a text for people."""

    @property
    def in_centipawns(self) -> bool:
        """Whether a hundred units of the values are a pawn. Otherwise they are Stockfish's internal units."""

    @property
    def term_units(self) -> str:
        """The unit of `Evaluation.terms`, as a text for people; empty if there are no terms."""

    def evaluate(self, positions: Sequence[Position]) -> Evaluation:
        """Evaluates each position with the layers of every output bucket."""

    def compute_values(self, block: PositionBatch, threads: int = 1) -> Ints:
        """Returns `Evaluation.value` of n positions, [n]. It computes nothing else of an Evaluation, and is faster for
        many positions."""


class FileNetwork(Network, Protocol):
    """A network that one file holds, and whose layers can be inspected."""

    @property
    def tensors(self) -> Mapping[str, npt.NDArray[Any]]:
        """All arrays of the network by name."""

    @property
    def description(self) -> str:
        """The text that the file carries. Bytes that are not UTF-8 appear as lone surrogates."""

    def activations(self, positions: Sequence[Position]) -> npt.NDArray[Any]:
        """Returns the activations of the first layer, which are the inputs of the next one: [n, inputs], the own side's
        outputs first."""

    def summarize(self) -> NetworkSummary:
        """Returns the summary that `pool inspect` prints."""

    def boards(self) -> FirstLayerBoards | None:
        """Returns the first layer's rows arranged as boards, or None if its inputs are not pieces on squares."""

    def settings(self) -> dict[str, Any]:
        """Returns the sections of a config, as a tree, that trains a network of the same shape."""


class Family(Protocol):
    """Defines the names of the module that reads a task's networks. Importing it must not import torch."""

    SUFFIXES: Sequence[str]  # suffixes of the names of its files

    def read_network(self, path: Path, config: Config | None) -> FileNetwork:
        """Reads a network's file. `config` is that of such a network, or None if the user has named none. Raises
        DataError or PoolError."""


@runtime_checkable
class NetworkTask(Protocol):
    """Defines the method of a task whose models are exported as integer networks."""

    def network(self, model: nn.Module, description: str = "") -> FileNetwork:
        """Returns the integer network that the model would be exported as. Raises ValueError if a value doesn't fit its
        integer type."""


@dataclass(frozen=True)
class TensorSummary:
    """Summarises the values of one array of a network."""

    name: str
    shape: tuple[int, ...]
    kind: str  # int8, int16, int32, float32
    smallest: int | float
    largest: int | float
    limits: tuple[int, int] | None  # the smallest and the largest integer that the array may have; None: floats
    used: float  # the largest magnitude, divided by that of the limits; 0 for floats
    clipped: int  # how many numbers are at an end of the range that training clips to; 0 if it does not
    zeros: float  # share of the numbers that are 0


@dataclass(frozen=True)
class NetworkSummary:
    """Summarises the contents of a network file."""

    about: Mapping[str, str | int]  # version, engine, widths
    tensors: Sequence[TensorSummary]
    dead: Mapping[str, tuple[int, int]]  # by layer: number of outputs that are 0 in all positions, and of all outputs


@dataclass(frozen=True)
class FirstLayerBoards:
    """Arranges the rows of a first layer as boards: what a piece on each square adds, for each bucket of the own king's
    square."""

    pieces: Sequence[str]
    kings: Sequence[Sequence[int]]  # [rank][file]: bucket of a king there, from rank 1 and `first_file` on
    weights: npt.NDArray[Any]  # [buckets, pieces, 64, outputs], integers
    one: float  # the integer that stands for 1.0
    first_file: str = "a"
    worth: npt.NDArray[np.float64] | None = None  # PSQT: [buckets, pieces, 64, output buckets], internal units


def summarize_tensor(name: str, array: npt.NDArray[Any], rule: Rounding | None) -> TensorSummary:
    """Summarises an array. `rule` says how its integers are stored, or is None for an array of floats."""
    kind, zeros = array.dtype.name, 1 - int(np.count_nonzero(array)) / array.size
    if rule is None:
        return TensorSummary(name, array.shape, kind, float(array.min()), float(array.max()), None, 0.0, 0, zeros)
    low, high = rule.bounds
    smallest, largest = int(array.min()), int(array.max())
    clipped = int(np.count_nonzero((array <= low) | (array >= high))) if rule.clips else 0
    used = max(-smallest, largest) / max(-low, high)
    return TensorSummary(name, array.shape, kind, smallest, largest, (low, high), used, clipped, zeros)
