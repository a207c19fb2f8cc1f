"""Computes the predictions of a checkpoint's network, or the mean of an ensemble's, for every sample of some files, in
their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from loader.files.identity import identify
from loader.files.new_file import NewFile
from loader.files.paths import find_files
from loader.files.pipes import OutputPipe, open_output_pipe
from loader.plugins.error_text import format_error_with_location
from loader.rows.readers import read_column_texts, without_labels
from loader.stream.data import Data
from loader.stream.schema import SparseBatch
from loader.stream.sequential import read_in_file_order
from pool.analysis.prediction_files import check_output_name, open_writer
from pool.analysis.untrained import untrained_shares
from pool.config.changes import Change
from pool.errors import ConfigError, PoolError
from pool.export.load import TrainedNetwork, describe_networks, load_networks
from pool.export.member import NEWEST, Choice
from pool.export.run import Method, build_data_config, predict_method
from pool.metrics.feature_uses import FeatureUses, UntrainedShare
from pool.nn.batch import TensorBatch


@dataclass(frozen=True)
class Predictor:
    """Predicts batches with the networks of a checkpoint, or with one of them."""

    members: tuple[TrainedNetwork, ...]
    methods: tuple[Method, ...]
    verb: str  # name of the command that predicts, for messages

    @classmethod
    def open(cls, path: Path, task: str | None, verb: str, choice: Choice = NEWEST) -> Predictor:
        """Loads the networks of a checkpoint or run. Predictions will be the mean over all, unless `choice` names one
        member. Raises PoolError."""
        members = load_networks(path, task, verb, choice)
        for member in members:
            member.model.eval()
        return cls(members, tuple(predict_method(member, verb) for member in members), verb)

    def __str__(self) -> str:
        return describe_networks(self.members)

    def predict(self, batch: TensorBatch, samples: int) -> npt.NDArray[Any]:
        """Returns the predictions [samples, k], in the order of the batch. Raises PoolError."""
        predictions = [
            self._predict_member(member, method, batch, samples)
            for member, method in zip(self.members, self.methods, strict=True)
        ]
        return _mean(predictions, f"{self.verb}: the task {self.members[0].name}")

    def _predict_member(
        self, member: TrainedNetwork, method: Method, batch: TensorBatch, samples: int
    ) -> npt.NDArray[Any]:
        """Returns the predictions [samples, k] of one member, and checks their shape. Raises PoolError."""
        subject = f"{self.verb}: the task {member.name}"
        try:
            with torch.no_grad():
                output = method(member.model, batch)
        except Exception as error:
            raise PoolError(f"{subject}: {format_error_with_location(error)}") from error
        shape = tuple(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
        if not isinstance(output, torch.Tensor) or output.dim() not in (1, 2) or len(output) != samples:
            raise PoolError(f"{subject} gives {shape}, and [{samples}] or [{samples}, k] is expected")
        numbers = output.detach().cpu()
        if numbers.dtype in (torch.bfloat16, torch.float16):
            numbers = numbers.float()
        return numbers.reshape(samples, -1).numpy()


@dataclass(frozen=True)
class PredictionSummary:
    """Describes the data of a file of predictions: the number of samples, and their features that were never
    trained."""

    samples: int
    untrained: tuple[UntrainedShare, ...]  # one for each field; empty where they can't be known


def predict_file(
    predictor: Predictor,
    patterns: Sequence[str],
    output: Path,
    changes: Sequence[Change] = (),
    on_progress: Callable[[int], object] | None = None,
    *,
    ids: str | None = None,
    header: bool = False,
) -> PredictionSummary:
    """Writes the predictions for each sample of the data files, in the format of the output's ending
    (`prediction_files.ENDINGS`). Labels are not read. Returns the number of samples, and the shares of their features
    that were never trained.

    changes: of [data]. ids: the column of the data that each line begins with. header: whether text begins with a line
    of names. on_progress: called with the number of samples written so far. Raises PoolError, UsageError, DataError.
    `output` is written completely or not at all, unless it is a pipe or standard output (`-`).
    """
    samples = 0
    uses = FeatureUses()
    ending = check_output_name(output)
    try:
        config = build_data_config(predictor.members[0], changes, predictor.verb)
        files = identify(find_files(patterns, "--data"))
        data = without_labels(config.data)
        names = None if ids is None else read_column_texts(data, files, ids)
        with _open_output(output) as file:
            writer = open_writer(ending, file.write, ids, header=header)
            for numbers in _predictions(predictor, read_in_file_order(Data(data, files, config.run.seed)), uses):
                writer.add(numbers, None if names is None else _next_ids(names, len(numbers)))
                samples += len(numbers)
                if on_progress is not None:
                    on_progress(samples)
            if names is not None and next(names, None) is not None:
                raise ConfigError(f"--id {ids}: there are more rows of it than samples")
            writer.close()
            if isinstance(file, NewFile):
                file.publish()
            else:
                file.flush()
    except FileExistsError:
        raise ConfigError(f"{output}: is there already; give another name, or remove it first") from None
    except (PoolError, OSError):
        raise
    except ValueError as error:
        if hasattr(error, "offset"):  # damaged data, which has an exit code of its own
            raise
        raise ConfigError(str(error)) from None
    return PredictionSummary(samples, untrained_shares(uses, predictor.members[0]))


def _next_ids(ids: Iterator[str], count: int) -> list[str]:
    """Returns the next `count` ids. Raises ConfigError if there are fewer."""
    texts = list(islice(ids, count))
    if len(texts) != count:
        raise ConfigError("--id: there are fewer rows of that column than samples")
    return texts


@contextmanager
def _open_output(path: Path) -> Iterator[NewFile | OutputPipe]:
    """Opens the output: a pipe, or a new file that appears under its name when it is complete."""
    pipe = open_output_pipe(path)
    if pipe is None:
        with NewFile(path, path.with_name(f".{path.name}.part")) as file:
            yield file
        return
    try:
        yield pipe
    finally:
        pipe.close()


def _predictions(
    predictor: Predictor, batches: Iterable[tuple[SparseBatch, npt.NDArray[np.int64]]], uses: FeatureUses
) -> Iterator[npt.NDArray[Any]]:
    """Yields the predictions [samples, k] of each batch, in the samples' own order. Counts the samples' features in
    `uses`."""
    for batch, order in batches:
        uses.add(batch)
        numbers = predictor.predict(TensorBatch.from_numpy(batch), len(order))
        result = np.empty_like(numbers)
        result[order] = numbers
        yield result


def _mean(members: Sequence[npt.NDArray[Any]], subject: str) -> npt.NDArray[Any]:
    """Returns the mean over the members, added up in double precision in the order of the members. Raises ConfigError
    for integers, and PoolError if the members' shapes differ."""
    first = members[0]
    if len(members) == 1:
        return first
    if not np.issubdtype(first.dtype, np.floating):
        raise ConfigError(
            f"{subject} gives {first.dtype}, which has no mean over members: choose with --member M or --member best"
        )
    for member in members:
        if member.shape != first.shape:
            raise PoolError(f"{subject} gives {first.shape} for one member and {member.shape} for another")
    total = np.zeros(first.shape)
    for member in members:
        total += member
    return (total / len(members)).astype(first.dtype)
