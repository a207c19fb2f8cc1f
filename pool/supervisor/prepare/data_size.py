"""Describes a run's data files before it starts: number of samples, share of each file, formats and units of scores."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from loader.files.identity import DataFile
from loader.stream.data import Data
from loader.stream.data_facts import DataFact
from pool.protocol.messages import Purpose
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.resources.system_memory import format_mib
from pool.task.registry import load_task_module


def estimate_samples(data: Data) -> int | None:
    """Estimates the number of samples in a pass over the data. None if it can't be estimated."""
    try:
        return data.samples_per_epoch()
    except Exception:  # a user's source may raise anything; the run reports damaged data later
        return None


def describe_mixture(run: RunPlan) -> str | None:
    """Returns a line with the share that each entry of data.train has of an epoch. None if the entries have no
    shares."""
    try:
        shares = run.data["train"].portions()
    except Exception:  # a source of the user's may raise anything
        return None
    entries = [
        f"{portion.samples:,} of entry {portion.component.number + 1} (share {portion.component.share:g}, "
        f"{portion.passes:.3g} {'pass' if round(portion.passes, 2) == 1 else 'passes'})"
        for portion in shares
    ]
    return f"data.train: samples of an epoch, about: {', '.join(entries)}" if entries else None


def warn_of_repeated_validation(run: RunPlan) -> str | None:
    """Returns a warning if validations take more samples than there are, else None."""
    train, batch = run.config.train, run.config.data.batch_size
    if not run.config.validate_every or not run.validation_files or train.validation_batches == "all":
        return None
    samples = estimate_samples(run.data["validate"])
    if not samples or samples >= train.validation_batches * batch:
        return None
    return (
        f"train.validation_batches: {train.validation_batches:,} batches of {batch:,}, and there are about "
        f"{samples:,} samples: some count more than once in a validation; {max(1, samples // batch):,} would not"
    )


Streams = Mapping[Purpose, Data]  # streams of a run

_MAX_LINES = 8  # of files on a page


@dataclass(frozen=True)
class _FileFormat:
    """Holds format and scores of a data file."""

    format: str  # name of the format; empty: not known
    unit: str | None  # unit of the scores; None: the file has no scores
    scale: float

    def __str__(self) -> str:
        scale = "" if self.scale == 1.0 else f", multiplied by {self.scale:g}"
        if self.unit is None:
            return self.format
        unit = f"usually in {self.unit}" if self.unit else "in a unit that is not known"
        return f"{self.format}, scores {unit}{scale}"


def file_lines(data: Data) -> Iterator[str]:
    """Yields a line for each file: path, format, size. Of many files only the first _MAX_LINES have one."""
    for file in data.files[:_MAX_LINES]:
        format_and_scores = _read_format(data, file)
        parts = (str(file.path), str(format_and_scores or ""), format_mib(file.size))
        yield ", ".join(filter(None, parts))
    if len(data.files) > _MAX_LINES:
        yield f"... and {len(data.files) - _MAX_LINES:,} more"


def data_facts(streams: Streams) -> Sequence[DataFact]:
    """Describes how a run's files are read. Returns an empty sequence if they can't be read, since the run reports the
    reason."""
    distinct = tuple(dict.fromkeys(itertools.chain.from_iterable(data.files for data in streams.values())))
    try:
        return replace(streams["train"], files=distinct).describe()
    except Exception:  # formats and sources are a user's code, too
        return ()


def unit_warning(task: str, streams: Streams) -> str | None:
    """Returns a warning if scores in the data have another unit than the network's output, or different units. Else
    None.

    A file with a score_scale is brought to the right unit by it.
    """
    module = load_task_module(task)
    unit, scales = getattr(module, "SCORE_UNIT", None), getattr(module, "SCORE_SCALES", {})
    if unit is None:
        return _mixed_units(streams)
    others: dict[str, DataFile] = {}  # the first file of each other unit
    for file, file_format in _list_formats(streams):
        if file_format is not None and file_format.unit and file_format.unit != unit and file_format.scale == 1.0:
            others.setdefault(file_format.unit, file)
    if not others:
        return None
    named = " and ".join(f"{other} ({file.path.name})" for other, file in others.items())
    scale = scales.get(next(iter(others)), "...")
    return (
        f"warning: scores are usually {named}, and the task {task} is for {unit}: "
        f'{{files = "...", score_scale = {scale}}} brings an entry to that; '
        f'score_unit = "{unit}" says that its scores have it already'
    )


def _mixed_units(streams: Streams) -> str | None:
    """Returns a warning if files whose scores have different units are read with the same score_scale. Else None."""
    units: dict[float, dict[str, DataFile]] = {}  # the first file of each unit, by scale
    for file, file_format in _list_formats(streams):
        if file_format is not None and file_format.unit:
            units.setdefault(file_format.scale, {}).setdefault(file_format.unit, file)
    for files_by_unit in units.values():
        if len(files_by_unit) > 1:
            mixed = " and ".join(f"{unit} ({file.path.name})" for unit, file in files_by_unit.items())
            return (
                f"warning: scores of different units are mixed: {mixed}; the same number means another chance to win. "
                'score_scale brings an entry to the unit of the others: {files = "...", score_scale = ...}'
            )
    return None


def _list_formats(streams: Streams) -> Iterator[tuple[DataFile, _FileFormat | None]]:
    """Yields every file of the streams with its format and scores."""
    for data in streams.values():
        for file in data.files:
            yield file, _read_format(data, file)


def _read_format(data: Data, file: DataFile) -> _FileFormat | None:
    """Returns format and scores of a file. None if it can't be opened, since the run reports the reason."""
    try:
        return _FileFormat(data.format_name(file), data.score_unit(file), file.score_scale)
    except Exception:  # formats and sources are a user's code, too
        return None
