"""Compares networks of chess engines, files and checkpoints, by one loss on the same positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from loader.cores import allowed_cores
from loader.files.identity import identify
from loader.files.paths import find_files
from loader.stream.config import DataConfig
from loader.stream.data import Data
from loader.stream.schema import SparseBatch
from loader.stream.sequential import read_in_file_order
from pool.analysis.predict import Predictor
from pool.config.changes import Change
from pool.config.load import apply_changes, load_config
from pool.config.schedule import MAX_STEPS
from pool.config.tree import Config
from pool.errors import ConfigError
from pool.export.run import build_data_config
from pool.nn.batch import TensorBatch
from pool.task.task import Progress
from pool.tasks.chess.network import FileNetwork
from pool.tasks.chess.networks.network_files import network_families, read_file
from pool.tasks.chess.positions import PositionBatch
from pool.tasks.chess.training.config import LossConfig
from pool.tasks.chess.training.loss import mean_loss, replace_mate_scores
from pool.tasks.chess.training.score_share import lambda_at

SECTIONS = ("data", "loss")  # sections of the config that all networks share
_INPUTS = ("features", "king_buckets", "output_buckets")  # keys of data.chess that each network has its own value of

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NetworkLoss:
    """The results of one network in a comparison."""

    net: str
    loss: float
    mean_difference: float  # mean |difference| from the first network's evaluations, in units of the score
    largest_difference: float


@dataclass(frozen=True)
class Comparison:
    """The results of all networks on the same samples."""

    samples: int
    weight: float  # lambda: the score's share of the target
    nets: Sequence[NetworkLoss]  # the lowest loss first


@dataclass(frozen=True)
class NetworkFile:
    """Evaluates batches with the integers of a network file, as its engine computes them."""

    network: FileNetwork

    def predict(self, batch: SparseBatch, samples: int) -> npt.NDArray[Any]:
        """Returns the evaluations [samples, 1] of a batch's first samples, in the order of the batch, in the network's
        own units, from the side to move's point of view."""
        return self.network.compute_values(PositionBatch.from_batch(batch, samples), allowed_cores())[:, None]


def compare(
    nets: Sequence[Path],
    patterns: Sequence[str],
    changes: Sequence[Change] = (),
    config_file: Path | None = None,
    task: str | None = None,
    on_progress: Callable[[int], object] | None = None,
) -> Comparison:
    """Evaluates networks on the same data and computes their losses. `changes` apply to [data] and [loss]. These two
    sections are those of `config_file`, else of the first checkpoint among the networks, else the defaults of the first
    network's task. Raises PoolError or DataError."""
    evaluators = [_open_evaluator(net, config_file, task) for net in nets]
    base = _choose_base_config(evaluators, changes, config_file)
    if not isinstance(base.loss, LossConfig):
        raise ConfigError(
            f"validate: is for networks of {', '.join(network_families())}, and the task here is {base.task}"
        )
    try:
        files = identify(find_files(patterns, "--data"))
        evaluations = []
        for net, evaluator in zip(nets, evaluators, strict=True):
            data = _data_config_for(evaluator, base)
            evaluations.append(_evaluate_files(str(net), evaluator, data, files, base.run.seed, on_progress))
    except ValueError as error:
        if hasattr(error, "offset") or isinstance(error, ConfigError):
            raise
        raise ConfigError(str(error)) from None
    share = lambda_at(base.loss, Progress(MAX_STEPS, MAX_STEPS)).base
    first_values = evaluations[0].values
    rows = []
    for net, evaluation in zip(nets, evaluations, strict=True):
        values = evaluation.values
        if len(values) != len(first_values):
            raise ConfigError(f"{net}: sees {len(values)} positions of the data, and {nets[0]} {len(first_values)}")
        output = torch.from_numpy(values / base.loss.output_unit)
        scores = replace_mate_scores(torch.from_numpy(evaluation.scores), base.loss)
        loss = mean_loss(output, scores, torch.from_numpy(evaluation.results), base.loss, share)
        difference = np.abs(values - first_values)
        rows.append(NetworkLoss(str(net), float(loss), float(difference.mean()), float(difference.max())))
    return Comparison(len(first_values), share, sorted(rows, key=lambda row: row.loss))


def _open_evaluator(net: Path, config_file: Path | None, task: str | None) -> Predictor | NetworkFile:
    """Opens a checkpoint's folder, or a network file."""
    if net.is_dir():
        return Predictor.open(net, task, "validate")
    return NetworkFile(read_file(net, config_file))


def _choose_base_config(
    evaluators: Sequence[Predictor | NetworkFile], changes: Sequence[Change], config_file: Path | None
) -> Config:
    """Returns the settings that all networks share in the comparison."""
    for change in changes:
        section, _, _ = change.key.partition(".")
        if section not in SECTIONS:
            raise ConfigError(f"--set {change.key}: validate takes keys of {' and '.join(SECTIONS)} alone")
    if config_file is not None:
        return load_config(config_file, changes)
    for evaluator in evaluators:
        if isinstance(evaluator, Predictor):
            return build_data_config(evaluator.members[0], changes, "validate", SECTIONS)
    first = evaluators[0]
    assert isinstance(first, NetworkFile)
    tree = first.network.settings()
    return apply_changes({key: tree[key] for key in ("task", *SECTIONS) if key in tree}, changes, "validate")


def _data_config_for(evaluator: Predictor | NetworkFile, base: Config) -> DataConfig:
    """Returns the shared settings of the data with the inputs of one network."""
    if base.data.section != "chess":
        raise ConfigError(f"validate: data.source = {base.data.source} has no positions")
    if isinstance(evaluator, NetworkFile):
        inputs = evaluator.network.inputs
        input_settings = {
            "features": inputs.features,
            "king_buckets": inputs.king_buckets,
            "output_buckets": "single",
        }
    else:
        settings = build_data_config(evaluator.members[0], (), "validate").data.settings
        input_settings = {key: getattr(settings, key) for key in _INPUTS}
    return base.data.model_copy(update={"chess": base.data.settings.model_copy(update=input_settings)})


class _Evaluations(NamedTuple):
    """A network's evaluations of n positions, and the labels of the positions, [n] each, in the order of the files."""

    values: Numbers
    scores: Numbers
    results: Numbers


def _evaluate_files(
    net: str,
    evaluator: Predictor | NetworkFile,
    data: DataConfig,
    files: Sequence[Any],
    seed: int,
    on_progress: Callable[[int], object] | None,
) -> _Evaluations:
    """Evaluates all positions of the files with one network."""
    blocks: list[Numbers] = []  # [3, samples] each
    samples = 0
    for batch, order in read_in_file_order(Data(data, tuple(files), seed)):
        if isinstance(evaluator, Predictor):
            values = evaluator.predict(TensorBatch.from_numpy(batch), len(order))
        else:
            values = evaluator.predict(batch, len(order))
        if values.shape[1] != 1:
            raise ConfigError(f"{net}: gives {values.shape[1]} numbers a position; one is expected")
        block = np.empty((3, len(order)))
        block[:, order] = values[:, 0], batch.dense["score"], batch.dense["result"]
        blocks.append(block)
        samples += len(order)
        if on_progress is not None:
            on_progress(samples)
    if not samples:
        raise ConfigError("--data: no position is left of it")
    return _Evaluations(*np.concatenate(blocks, axis=1))
