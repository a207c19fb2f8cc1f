"""Integer networks of any family: what `pool eval` asks of them, and how the family of a file or checkpoint is found.

A task's module names one with its networks, NETWORKS; see `Family`. Imports torch for a checkpoint alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from loader.plugins.registry import load
from pool.checkpoint.folder import locate
from pool.checkpoint.state import read_state
from pool.config.load import load_config
from pool.config.tree import Config
from pool.errors import ConfigError, PoolError
from pool.export.member import One
from pool.run_folder.strict_json import printable
from pool.task.registry import TASKS, task_module
from pool.tasks.chess.positions import Inputs, Position

if TYPE_CHECKING:
    from pool.export.load import Trained

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Evaluation:
    """Of n positions; the side to move's view."""

    bucket: Ints  # [n], the output bucket in use
    terms: Mapping[str, Ints]  # by name: [n, buckets], what each bucket's value is made of; none if it is one sum
    values: Ints  # [n, buckets], internal units
    value: Ints  # [n], of the bucket in use
    pawns: npt.NDArray[np.float64]  # [n], the value as the engine prints it


class Network(Protocol):
    """The integers of an engine's network."""

    @property
    def inputs(self) -> Inputs:
        """Of each perspective."""

    @property
    def units(self) -> str:
        """What the value counts, in words."""

    @property
    def units_of_terms(self) -> str:
        """What each of the terms counts, in words; empty if there are none."""

    def evaluate(self, positions: Sequence[Position]) -> Evaluation:
        """All buckets of each position."""


class StoredNetwork(Network, Protocol):
    """One that a file holds."""

    @property
    def tensors(self) -> Mapping[str, npt.NDArray[Any]]:
        """All its numbers, by name."""

    @property
    def description(self) -> str:
        """Text that the file carries; bytes that are not UTF-8 as lone surrogates."""


class LayeredNetwork(StoredNetwork, Protocol):
    """One whose first layer can be looked at."""

    def activations(self, positions: Sequence[Position]) -> npt.NDArray[Any]:
        """[n, inputs of the next layer]: what leaves the first layer, the own side's outputs first."""
        ...


class MeanNetwork:
    """A Network: what the members of an ensemble say on average, in whole units, halves to the even one."""

    def __init__(self, members: Sequence[Network]) -> None:
        first = members[0]
        self._members = members
        self.inputs, self.units, self.units_of_terms = first.inputs, first.units, first.units_of_terms

    def evaluate(self, positions: Sequence[Position]) -> Evaluation:
        each = [member.evaluate(positions) for member in self._members]
        return Evaluation(
            each[0].bucket,
            {name: _mean([found.terms[name] for found in each]) for name in each[0].terms},
            _mean([found.values for found in each]),
            _mean([found.value for found in each]),
            np.mean([found.pawns for found in each], axis=0),
        )


@dataclass(frozen=True)
class TensorFacts:
    """What one array holds."""

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
    """What a network file is."""

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


class Family(Protocol):
    """The module with a task's networks. Importing it must not import torch."""

    SUFFIXES: Sequence[str]  # of the names of its files

    def facts(self, network: Any) -> Facts:
        """Of a network that this module has read."""

    def boards(self, network: Any) -> Boards | None:
        """Of a network's pieces; None if its inputs are others."""

    def settings(self, network: Any) -> dict[str, Any]:
        """The sections of a config that train such a network."""

    def read_network(self, path: Path, config: Config | None) -> LayeredNetwork:
        """`config`: of such a network, if the user has named one. Raises DataError, PoolError."""

    def exported_network(self, found: Trained) -> Network:
        """What a checkpoint would be exported as. Raises ValueError for what does not fit."""


def open_network(
    path: Path, member: One | None = None, config_file: Path | None = None, *, averaged: bool = False
) -> Network:
    """That of a file (`read_file`); or the one that a checkpoint, or the newest of a run, would be exported as.

    A file with a suffix of nobody's is read by the first family. `member`: one of an ensemble, None: the mean of
    all; `averaged`: of a checkpoint, its averaged weights. Raises PoolError, DataError.
    """
    if path.is_dir():
        if config_file is not None:
            raise ConfigError(f"--config: the checkpoint {path} has its config itself; leave it out")
        return _of_checkpoint(locate(path), member, averaged=averaged)
    if member is not None:
        raise ConfigError(f"--member {member}: {path} is a file, of one network")
    if averaged:
        raise ConfigError(f"--ema: {path} is a file, of one network; leave it out")
    return read_file(path, config_file)[1]


def read_file(path: Path, config_file: Path | None = None) -> tuple[Family, LayeredNetwork]:
    """A network with its family, found by the task of `config_file`, else by the name's suffix. Raises PoolError,
    DataError."""
    known = families()
    if config_file is not None:
        config = load_config(config_file)
        family = _family(config.task, known, str(config_file))
        return family, family.read_network(path, config)
    found = list(known.values())
    family = next((family for family in found if path.suffix in family.SUFFIXES), found[0])
    return family, family.read_network(path, None)


def families() -> dict[str, Family]:
    """By the name of the task."""
    return dict(_families())


def _families() -> Iterator[tuple[str, Family]]:
    for name in TASKS.bundled:
        module = getattr(task_module(name), "NETWORKS", None)
        if module is not None:
            yield name, cast(Family, load(module, ours=True))


def _family(task: str, known: Mapping[str, Family], where: str) -> Family:
    """Raises ConfigError."""
    if task not in known:
        raise ConfigError(
            f"eval: {where} is of the task {printable(task)}, and eval is for {', '.join(known)}: see pool predict"
        )
    return known[task]


def _of_checkpoint(checkpoint: Path, member: One | None, *, averaged: bool) -> Network:
    task = str(read_state(checkpoint).config.get("task"))
    known = families()
    family = _family(task, known, str(checkpoint))
    from pool.export.load import load_members

    networks = []
    for found in load_members(checkpoint, task, "eval", member, averaged=averaged):
        try:
            networks.append(family.exported_network(found))
        except ValueError as error:
            raise PoolError(f"{found}: {error}") from None
    return networks[0] if len(networks) == 1 else MeanNetwork(networks)


def _mean(members: Sequence[Ints]) -> Ints:
    mean: npt.NDArray[np.float64] = np.mean(members, axis=0)
    return np.rint(mean).astype(np.int64)
