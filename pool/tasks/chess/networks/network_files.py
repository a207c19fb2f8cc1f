"""Opens integer networks: files of any family, and checkpoints as the networks that they would be exported as. Imports
torch for a checkpoint alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from loader.plugins.registry import import_object
from pool.checkpoint.folder import find_checkpoint
from pool.checkpoint.state import read_state
from pool.config.load import load_config
from pool.errors import ConfigError, PoolError
from pool.export.member import NEWEST, Choice
from pool.run_folder.strict_json import printable
from pool.task.registry import TASKS, load_task_module
from pool.tasks.chess.network import Evaluation, Family, FileNetwork, Network, NetworkTask
from pool.tasks.chess.positions import Position, PositionBatch
from pool.tasks.chess.quantization import Ints


class MeanNetwork:
    """Evaluates positions with an ensemble: the mean of its members' evaluations, in whole units. Halves are rounded to
    even."""

    def __init__(self, members: Sequence[Network]) -> None:
        first = members[0]
        self._members = members
        self.inputs, self.units, self.term_units = first.inputs, first.units, first.term_units
        self.in_centipawns = first.in_centipawns

    def evaluate(self, positions: Sequence[Position]) -> Evaluation:
        each = [member.evaluate(positions) for member in self._members]
        return Evaluation(
            each[0].bucket,
            {name: _mean([evaluation.terms[name] for evaluation in each]) for name in each[0].terms},
            _mean([evaluation.values for evaluation in each]),
            _mean([evaluation.value for evaluation in each]),
            np.mean([evaluation.pawns for evaluation in each], axis=0),
        )

    def compute_values(self, block: PositionBatch, threads: int = 1) -> Ints:
        return _mean([member.compute_values(block, threads) for member in self._members])


def open_network(path: Path, choice: Choice = NEWEST, config_file: Path | None = None) -> Network:
    """Opens the network of a file (see `read_file`), or of a checkpoint or a run's newest checkpoint as it would be
    exported. For an ensemble it is the mean of all members, unless one is chosen. Raises PoolError or DataError."""
    if path.is_dir():
        if config_file is not None:
            raise ConfigError(f"--config: the checkpoint {path} has its config itself; leave it out")
        return _open_checkpoint(find_checkpoint(path), choice)
    if choice.member is not None:
        raise ConfigError(f"--member {choice.member}: {path} is a file, of one network")
    if choice.averaged:
        raise ConfigError(f"--ema: {path} is a file, of one network; leave it out")
    return read_file(path, config_file)


def read_file(path: Path, config_file: Path | None = None) -> FileNetwork:
    """Reads a network file. Its family is that of the task in `config_file`, else the one that has the file's suffix,
    else the first one. Raises PoolError or DataError."""
    families = network_families()
    if config_file is not None:
        config = load_config(config_file)
        _check_task(config.task, families, str(config_file))
        return families[config.task].read_network(path, config)
    default = next(iter(families.values()))
    family = next((family for family in families.values() if path.suffix in family.SUFFIXES), default)
    return family.read_network(path, None)


def network_families() -> dict[str, Family]:
    """Returns the modules with the bundled tasks' networks, by the names of the tasks."""
    families = {}
    for name in TASKS.bundled:
        module = getattr(load_task_module(name), "NETWORKS", None)
        if module is not None:
            families[name] = cast(Family, import_object(module, ours=True))
    return families


def _check_task(task: str, families: Mapping[str, Family], origin: str) -> None:
    """Checks that the task has integer networks. `origin` is the file that names the task. Raises ConfigError."""
    if task not in families:
        raise ConfigError(
            f"eval: {origin} is of the task {printable(task)}, and eval is for {', '.join(families)}: see pool predict"
        )


def _open_checkpoint(checkpoint: Path, choice: Choice) -> Network:
    """Loads the members of a checkpoint that were chosen, and returns the network that they would be exported as."""
    task = str(read_state(checkpoint).config.get("task"))
    _check_task(task, network_families(), str(checkpoint))
    from pool.export.load import load_networks  # late: torch

    networks = []
    for trained in load_networks(checkpoint, task, "eval", choice):
        assert isinstance(trained.task, NetworkTask)
        try:
            networks.append(trained.task.network(trained.model))
        except ValueError as error:
            raise PoolError(f"{trained}: {error}") from None
    return networks[0] if len(networks) == 1 else MeanNetwork(networks)


def _mean(members: Sequence[Ints]) -> Ints:
    mean: npt.NDArray[np.float64] = np.mean(members, axis=0)
    return np.rint(mean).astype(np.int64)
