"""What a checkpoint's network, or the mean of an ensemble's, says of every sample of some files, in their order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from loader.batch.schema import SparseBatch
from loader.files.identity import identify
from loader.in_order import batches_in_order
from loader.plugins.interface import call_problem
from loader.plugins.words import told
from loader.resumable.new_file import NewFile
from loader.sources import SOURCES, built_in_formats, find_files
from pool.checkpoint.disk import plain
from pool.config.changes import Change
from pool.config.reading import changed_config
from pool.config.tree import Config
from pool.errors import ConfigError, PoolError
from pool.nn.batch import TensorBatch
from pool.trained.choosing import One
from pool.trained.model import Trained, described, load_members

Method = Callable[[nn.Module, TensorBatch], torch.Tensor]

_DIGITS = {np.dtype(np.float32): "%.9g", np.dtype(np.float64): "%.17g"}  # a reader gets the same number back


def predict_file(
    where: Path,
    patterns: Sequence[str],
    output: Path,
    task: str | None,
    changes: Sequence[Change] = (),
    member: One | None = None,
    on_progress: Callable[[int], object] | None = None,
    *,
    averaged: bool = False,
) -> tuple[str, int]:
    """Writes a line of numbers, separated by tabs, for each sample; returns what it asked, in words, and how many
    samples there were.

    `changes`: of [data]; `member`: one of an ensemble, None: the mean of all; `averaged`: with the averaged weights;
    `on_progress`: told how many samples are written so far. Raises PoolError, DataError; `output` is written as a whole
    or not at all.
    """
    found = load_members(where, task, "predict", member, averaged=averaged)
    asked = [(member, _method_of(member)) for member in found]
    samples = 0
    try:
        config = _config_of(found[0], changes)
        files = identify(find_files(patterns, "--data"))
        with NewFile(output) as file:
            for numbers in _predictions(asked, batches_in_order(config.data, files, config.run.seed)):
                file.write(_lines(numbers))
                samples += len(numbers)
                if on_progress is not None:
                    on_progress(samples)
            file.publish()
    except FileExistsError:
        raise ConfigError(f"{output}: is there already; give another name, or remove it first") from None
    except (PoolError, OSError):
        raise
    except ValueError as error:
        if hasattr(error, "offset"):  # damaged data, which has an exit code of its own
            raise
        raise ConfigError(str(error)) from None
    return described(found), samples


def _method_of(found: Trained) -> Method:
    """`pool.tasks.task.Predicting`. Raises ConfigError."""
    method = getattr(found.task, "predict", None)
    if method is None:
        raise ConfigError(
            f"predict: the task {found.name} has no method predict(model, batch), which gives a tensor of [batch] or "
            "[batch, k]: add it"
        )
    if problem := call_problem(method, ("model", "batch")):
        raise ConfigError(f"predict: the task {found.name}: its method predict {problem}")
    predicts: Method = method
    return predicts


def _config_of(found: Trained, changes: Sequence[Change]) -> Config:
    """The settings of the run's data. Code that the checkpoint names is imported only if `changes` name it, too."""
    data = found.config.get("data")
    if not isinstance(data, Mapping):
        raise plain.not_ours(found.checkpoint, "config.data: a section is expected")
    tree = {"task": found.name, "data": {**json.loads(json.dumps(data)), "train": [], "validation": []}}
    named = {change.key: change.value for change in changes}
    for key, known in (("source", SOURCES.bundled), ("format", (None, *built_in_formats()))):
        value = data.get(key)
        if value not in known and f"data.{key}" not in named:
            raise ConfigError(
                f"the data.{key} of {found.checkpoint} is {plain.printable(str(value))}, which is no part of this "
                f"program; predict runs it only if you name it too: --set data.{key}={plain.printable(str(value))}"
            )
    if wrong := [key for key in named if not key.startswith("data.")]:
        raise ConfigError(f"--set {wrong[0]}: predict takes keys of data alone")
    return changed_config(tree, changes, str(found.checkpoint))


def _predictions(
    asked: Sequence[tuple[Trained, Method]], batches: Iterable[tuple[SparseBatch, npt.NDArray[np.int64]]]
) -> Iterator[npt.NDArray[Any]]:
    """[samples, k], in the samples' own order."""
    for member, _ in asked:
        member.model.eval()
    for batch, order in batches:
        given = TensorBatch.from_numpy(batch)
        numbers = _mean([_asked(member, method, given, len(order)) for member, method in asked], asked[0][0].name)
        result = np.empty_like(numbers)
        result[order] = numbers
        yield result


def _asked(found: Trained, method: Method, batch: TensorBatch, samples: int) -> npt.NDArray[Any]:
    """[samples, k], in the order of the batch."""
    try:
        with torch.no_grad():
            given = method(found.model, batch)
    except Exception as error:
        raise PoolError(f"predict: the task {found.name}: {told(error)}") from error
    shape = tuple(given.shape) if isinstance(given, torch.Tensor) else type(given).__name__
    if not isinstance(given, torch.Tensor) or given.dim() not in (1, 2) or len(given) != samples:
        raise PoolError(f"predict: the task {found.name} gives {shape}, and [{samples}] or [{samples}, k] is expected")
    numbers = given.detach().cpu()
    if numbers.dtype in (torch.bfloat16, torch.float16):
        numbers = numbers.float()
    return numbers.reshape(samples, -1).numpy()


def _mean(members: Sequence[npt.NDArray[Any]], task: str) -> npt.NDArray[Any]:
    """Added in double precision, in the order of the members."""
    first = members[0]
    if len(members) == 1:
        return first
    if not np.issubdtype(first.dtype, np.floating):
        raise ConfigError(
            f"predict: the task {task} gives {first.dtype}, which has no mean over members: choose with --member M or "
            "--member best"
        )
    if wrong := next((each.shape for each in members if each.shape != first.shape), None):
        raise PoolError(f"predict: the task {task} gives {first.shape} for one member and {wrong} for another")
    total = np.zeros(first.shape)
    for each in members:
        total += each
    return (total / len(members)).astype(first.dtype)


def _lines(numbers: npt.NDArray[Any]) -> bytes:
    digits = _DIGITS.get(numbers.dtype, "%d")
    row = "\t".join([digits] * numbers.shape[1])
    return "".join(f"{row % tuple(line)}\n" for line in numbers.tolist()).encode()
