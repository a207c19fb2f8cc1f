"""Finds and identifies the data files of a run, compares them with those of the checkpoint to resume from, and checks
at the end that they have not changed.

When a run is resumed, names, sizes and checksums of chunks are compared, since the files may lie in another folder.
Within a run the files themselves are compared too, by device, inode and time (`loader.files.identity`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file

from loader.errors import DataError, has_error_number
from loader.exit_codes import EXIT_DATA
from loader.files.fingerprint import content_digest
from loader.files.identity import DataFile, check_unchanged, identify
from loader.files.paths import NoFileError
from loader.stream.data import Data
from loader.stream.data_facts import format_facts
from loader.stream.mixture_files import apply_entry_settings, find_entry_files
from pool.checkpoint.state import CHUNK_SUMS, SavedState, describe_mixture, describe_scales, same_validation
from pool.config.tree import Config
from pool.errors import AWAY_ERRORS, CheckpointError, ConfigError, RunError, UnavailableError
from pool.process.start import run_data
from pool.protocol.messages import Purpose
from pool.supervisor.prepare.data_size import data_facts, unit_warning
from pool.supervisor.prepare.run_plan import RunPlan

FileRecords = Sequence[tuple[str, int]]  # name and size of each file, as in SavedState.data
FileValues = Sequence[tuple[int, float]]  # for each value of a setting: number of consecutive files, value


@dataclass(frozen=True)
class DataFiles:
    """Holds the data files of a run."""

    data: Mapping[Purpose, Data]  # data of each stream
    validation_digests: tuple[str, ...]  # digest of each file's content; none if validations read the training files
    notes: tuple[str, ...]  # lines for the user

    @property
    def train(self) -> tuple[DataFile, ...]:
        return self.data["train"].files

    @property
    def validation(self) -> tuple[DataFile, ...]:
        return self.data["validate"].files


def find_data_files(config: Config, saved: SavedState | None) -> DataFiles:
    """Finds the files that the config names, as they are now.

    `saved`: state in the checkpoint to resume from, or None. With data.growing = "ignore_new", files that are newer
    than the checkpoint are left out, and so are bytes added to the end of files. Raises ConfigError, of which
    UnavailableError for files that do not exist now.
    """
    notes: list[str] = []
    train_files = _find_files(config, "train", () if saved is None else saved.data, notes)
    validation_files = _find_files(config, "validation", () if saved is None else saved.validation, notes)
    digests = _content_digests(validation_files)
    if config.data.validation_share:
        validation_files = train_files
    can_compare = saved is not None and saved.validation and validation_files
    if saved is not None and can_compare and not same_validation(saved, validation_files, digests):
        notes.append("data.validation: other files than before; the losses of validations can't be compared any more")
    streams = run_data(config, train_files, validation_files)
    notes += format_facts(data_facts(streams))
    warning = unit_warning(config.task, streams)
    if warning is not None:
        notes.append(warning)
    return DataFiles(streams, digests, tuple(notes))


def _find_files(config: Config, key: str, records: FileRecords, notes: list[str]) -> tuple[DataFile, ...]:
    """Finds the files of one setting, data.train or data.validation, by `key`.

    `records`: name and size of each file in the checkpoint to resume from; `notes`: gets lines for the user. Raises
    ConfigError, UnavailableError.
    """
    setting, may_grow = f"data.{key}", config.data.may_grow
    try:
        paths, entries = find_entry_files(getattr(config.data, key), setting)
        if may_grow and records:
            recorded_paths = _select_recorded(paths, records)
            if len(recorded_paths) == len(records) < len(paths):
                num_new = len(paths) - len(recorded_paths)
                notes.append(f"{setting}: files newer than the checkpoint are left out: {num_new}")
                paths = recorded_paths
        files = apply_entry_settings(identify(paths), entries, setting)
    except DataError as error:
        if has_error_number(error, AWAY_ERRORS):
            raise UnavailableError(str(error)) from None
        raise ConfigError(str(error)) from None
    except NoFileError as error:
        raise UnavailableError(str(error)) from None
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if may_grow and _file_names(files) == [name for name, _ in records]:
        return tuple(file.up_to(int(size)) for file, (_, size) in zip(files, records, strict=True))
    return files


def _content_digests(files: Sequence[DataFile]) -> tuple[str, ...]:
    """Returns a digest of the content of each file. Raises UnavailableError if one can't be read."""
    try:
        return tuple(f"{content_digest(file.path, file.size)}{_scale_mark(file)}" for file in files)
    except OSError as error:
        raise UnavailableError(f"data.validation: {error.filename}: {error.strerror}") from None


def _scale_mark(file: DataFile) -> str:
    """Returns a suffix for the digest of a file whose scores are multiplied, since other scores give other losses."""
    return "" if file.score_scale == 1.0 else f" x {file.score_scale:g}"


def compare_files(saved: SavedState, files: Sequence[DataFile], checkpoint: Path) -> None:
    """Compares the training files with those of the checkpoint.

    Raises ConfigError for other names, shares or scales, RunError for a file whose size has changed.
    """
    names, saved_names = _file_names(files), [str(name) for name, _ in saved.data]
    if names != saved_names:
        raise ConfigError(
            f"data.train: {_format_names(names)} now, other data in {checkpoint} "
            f"({_format_names(saved_names)}); a resumed run must take the same batches"
        )
    _compare_setting("shares", describe_mixture(files), saved.mixture, checkpoint)
    _compare_setting("score_scale", describe_scales(files), saved.scales, checkpoint)
    for file, (_, saved_size) in zip(files, saved.data, strict=True):
        if file.size != saved_size:
            advice = '; data.growing = "ignore_new" leaves the new bytes out' if file.size > saved_size else ""
            raise RunError(
                f"{file.path}: has changed: {file.size} bytes now, {saved_size} when {checkpoint} was written; "
                f"a resumed run must take the same batches{advice}",
                EXIT_DATA,
            )


def _compare_setting(name: str, values: FileValues, saved_values: FileValues, checkpoint: Path) -> None:
    """Raises ConfigError if the values of a setting of data.train's entries differ from those in the checkpoint."""
    if list(values) != list(saved_values):
        raise ConfigError(
            f"data.train: {_format_values(name, values)} now, {_format_values(name, saved_values)} in {checkpoint}; a "
            f"resumed run must take the same batches: set {name} back, or begin another run with model.start_from"
        )


def describe_cut_files(run: RunPlan) -> list[str]:
    """Returns lines for the user about files whose ends are not read."""
    cut = [file for file in dict.fromkeys((*run.train_files, *run.validation_files)) if file.modified is None]
    if not cut:
        return []
    more = f", and the ends of {len(cut) - 1} more files" if len(cut) > 1 else ""
    return [f'data.growing = "ignore_new": {cut[0].path} is read up to byte {cut[0].size}{more}']


def load_saved_sums(run: RunPlan, saved: SavedState, checkpoint: Path) -> dict[Purpose, npt.NDArray[np.uint64]]:
    """Returns the checksums of the chunks that were read before the checkpoint was written, for each stream.

    Each checksum is a uint64, in the format of native/stream/chunk_sums.h. Raises CheckpointError, or RunError if the
    number of chunks has changed.
    """
    if CHUNK_SUMS not in saved.files:
        return {}
    tables = _load_sums(checkpoint / CHUNK_SUMS)
    sums: dict[Purpose, npt.NDArray[np.uint64]] = {}
    for purpose, count in run.planned.num_chunks.items():
        if purpose not in tables or (purpose == "validate" and not _validates_on_same_data(run, saved)):
            continue
        if tables[purpose].size != count:
            paths = [str(file.path) for file in run.data[purpose].files]
            raise RunError(
                f"{_format_names(paths)}: the data have changed: {count} chunks now, "
                f"{tables[purpose].size} when {checkpoint} was written",
                EXIT_DATA,
            )
        sums[purpose] = tables[purpose]
    return sums


def check_unchanged_at_end(run: RunPlan) -> None:
    """Checks that no file has changed since the run began. Raises RunError."""
    try:
        check_unchanged((*run.train_files, *run.validation_files), may_grow=run.config.data.may_grow)
    except DataError as error:
        raise RunError(f"{error}; all steps are done, and the last checkpoint is written", EXIT_DATA) from None


def _load_sums(path: Path) -> dict[str, npt.NDArray[np.uint64]]:
    """Reads the tables of checksums in a checkpoint. Raises CheckpointError."""
    try:
        tables = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: {error}") from None
    if any(table.dtype != np.uint64 or table.ndim != 1 for table in tables.values()):
        raise CheckpointError(f"{path}: is no table of checksums of chunks")
    return tables


def _validates_on_same_data(run: RunPlan, saved: SavedState) -> bool:
    return same_validation(saved, run.validation_files, run.validation_digests)


def _file_names(files: Sequence[DataFile]) -> list[str]:
    return [file.path.name for file in files]


def _format_names(names: Sequence[str]) -> str:
    """Returns the first three names of files, and the number of files if there are more."""
    first_names = ", ".join(names[:3])
    return first_names if len(names) <= 3 else f"{first_names}, ... ({len(names)} files)"


def _format_values(name: str, values: FileValues) -> str:
    """Describes the values of a setting, such as `shares 0.5 (2 files)`."""
    listed = ", ".join(f"{value:g} ({count} file{'s' if count != 1 else ''})" for count, value in values)
    return f"{name} {listed}" if listed else f"no {name}"


def _select_recorded(paths: Sequence[Path], records: FileRecords) -> list[Path]:
    """Returns the paths that have the names in `records`, as many of these, in their order, as there are."""
    names = [name for name, _ in records]
    selected: list[Path] = []
    for path in paths:
        if len(selected) < len(names) and path.name == names[len(selected)]:
            selected.append(path)
    return selected
