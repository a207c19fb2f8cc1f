"""Integer networks of any family: what `pool eval` asks of them, and how the family of a file or checkpoint is found.

A task's module names one with its networks, NETWORKS; see `Family`. Imports torch for a checkpoint alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import numpy.typing as npt

from loader.plugins.registry import load
from pool.checkpoint.disk.plain import printable
from pool.checkpoint.folder import locate
from pool.checkpoint.state import read_state
from pool.config.reading import load_config
from pool.config.tree import Config
from pool.errors import ConfigError, PoolError
from pool.tasks.chess.positions import Inputs, Position
from pool.tasks.registry import TASKS, task_module

if TYPE_CHECKING:
    from pool.tasks.trained import Trained

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


class Family(Protocol):
    """The module with a task's networks. Importing it must not import torch."""

    SUFFIXES: Sequence[str]  # of the names of its files

    def read_network(self, path: Path, config: Config | None) -> Network:
        """`config`: of such a network, if the user has named one. Raises DataError, PoolError."""

    def exported_network(self, found: Trained) -> Network:
        """What a checkpoint would be exported as. Raises ValueError for what does not fit."""


def open_network(path: Path, config_file: Path | None = None) -> Network:
    """That of a file, by the task of `config_file`, else by its name's suffix; or the one that a checkpoint, or the
    newest of a run, would be exported as.

    A file with a suffix of its own is read by the first family. Raises PoolError, DataError.
    """
    if path.is_dir():
        if config_file is not None:
            raise ConfigError(f"eval: --config: the checkpoint {path} has its config itself; leave it out")
        return _of_checkpoint(locate(path))
    known = families()
    if config_file is not None:
        config = load_config(config_file)
        return _family(config.task, known, str(config_file)).read_network(path, config)
    found = list(known.values())
    return next((family for family in found if path.suffix in family.SUFFIXES), found[0]).read_network(path, None)


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


def _of_checkpoint(checkpoint: Path) -> Network:
    task = str(read_state(checkpoint).config.get("task"))
    known = families()
    family = _family(task, known, str(checkpoint))
    from pool.tasks.trained import load_trained

    found = load_trained(checkpoint, task)
    try:
        return family.exported_network(found)
    except ValueError as error:
        raise PoolError(f"{found.checkpoint}: {error}") from None
