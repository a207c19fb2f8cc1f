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

Recorded = Sequence[tuple[str, int]]  # name and size of each file, as in SavedState.data


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


def find(config: Config, saved: SavedState | None) -> DataFiles:
    """Finds the files that the config names, as they are now.

    `saved`: state in the checkpoint to resume from, or None. With data.growing = "ignore_new", files that are newer
    than the checkpoint are left out, and so are bytes added to the end of files. Raises ConfigError, of which
    UnavailableError for files that do not exist now.
    """
    data = config.data
    recorded: Mapping[str, Recorded] = {}
    if saved is not None:
        recorded = {"train": saved.data, "validation": saved.validation}
    notes: list[str] = []
    files: dict[str, tuple[DataFile, ...]] = {}
    try:
        for key in ("train", "validation"):
            paths, entries = find_entry_files(getattr(data, key), f"data.{key}")
            known = recorded.get(key, ())
            if data.may_grow and known and len(old := _recorded(paths, known)) == len(known) < len(paths):
                notes.append(f"data.{key}: files newer than the checkpoint are left out: {len(paths) - len(old)}")
                paths = old
            files[key] = apply_entry_settings(identify(paths), entries, f"data.{key}")
            if data.may_grow and _names(files[key]) == [name for name, _ in known]:
                files[key] = tuple(file.up_to(int(size)) for file, (_, size) in zip(files[key], known, strict=True))
    except DataError as error:
        raise (UnavailableError if has_error_number(error, AWAY_ERRORS) else ConfigError)(str(error)) from None
    except NoFileError as error:
        raise UnavailableError(str(error)) from None
    except ValueError as error:
        raise ConfigError(str(error)) from None
    digests = _content_digests(files["validation"])
    if data.validation_share:
        files["validation"] = files["train"]
    before = saved if saved is not None and saved.validation and files["validation"] else None
    if before is not None and not same_validation(before, files["validation"], digests):
        notes.append("data.validation: other files than before; the losses of validations can't be compared any more")
    streams = run_data(config, files["train"], files["validation"])
    notes += format_facts(data_facts(streams))
    if (warning := unit_warning(config.task, streams)) is not None:
        notes.append(warning)
    return DataFiles(streams, digests, tuple(notes))


def _content_digests(files: Sequence[DataFile]) -> tuple[str, ...]:
    """Returns a digest of the content of each file. Raises UnavailableError if one can't be read."""
    try:
        return tuple(f"{content_digest(file.path, file.size)}{_scale_of(file)}" for file in files)
    except OSError as error:
        raise UnavailableError(f"data.validation: {error.filename}: {error.strerror}") from None


def _scale_of(file: DataFile) -> str:
    """Returns a mark for a file whose scores are multiplied, because validations with other scores measure something
    else."""
    return "" if file.score_scale == 1.0 else f" x {file.score_scale:g}"


def compare_files(saved: SavedState, files: Sequence[DataFile], checkpoint: Path) -> None:
    """Compares the training files with those of the checkpoint.

    Raises ConfigError for other names, shares or scales, RunError for a file whose size has changed.
    """
    then = [(str(name), int(size)) for name, size in saved.data]
    if _names(files) != [name for name, _ in then]:
        raise ConfigError(
            f"data.train: {_listed(_names(files))} now, other data in {checkpoint} "
            f"({_listed([name for name, _ in then])}); a resumed run must take the same batches"
        )
    for name, now, before in (
        ("shares", describe_mixture(files), saved.mixture),
        ("score_scale", describe_scales(files), saved.scales),
    ):
        if now != list(before):
            raise ConfigError(
                f"data.train: {_of_files(name, now)} now, {_of_files(name, before)} in {checkpoint}; a resumed run "
                f"must take the same batches: set {name} back, or begin another run with model.start_from"
            )
    for file, (_, size) in zip(files, then, strict=True):
        if file.size != size:
            advice = '; data.growing = "ignore_new" leaves the new bytes out' if file.size > size else ""
            raise RunError(
                f"{file.path}: has changed: {file.size} bytes now, {size} when {checkpoint} was written; "
                f"a resumed run must take the same batches{advice}",
                EXIT_DATA,
            )


def left_out(run: RunPlan) -> list[str]:
    """Returns lines for the user about files whose ends are not read."""
    cut = [file for file in dict.fromkeys((*run.train_files, *run.validation_files)) if file.modified is None]
    if not cut:
        return []
    more = f", and the ends of {len(cut) - 1} more files" if len(cut) > 1 else ""
    return [f'data.growing = "ignore_new": {cut[0].path} is read up to byte {cut[0].size}{more}']


def saved_sums(run: RunPlan, saved: SavedState, checkpoint: Path) -> dict[Purpose, npt.NDArray[np.uint64]]:
    """Returns the checksums of the chunks that were read before the checkpoint was written, for each stream.

    Each checksum is a uint64, in the format of native/stream/chunk_sums.h. Raises CheckpointError, or RunError if the
    number of chunks has changed.
    """
    if CHUNK_SUMS not in saved.files:
        return {}
    tables = _load_sums(checkpoint / CHUNK_SUMS)
    sums: dict[Purpose, npt.NDArray[np.uint64]] = {}
    for purpose, count in run.planned.num_chunks.items():
        if purpose not in tables or (purpose == "validate" and _other_validation(run, saved)):
            continue
        if tables[purpose].size != count:
            paths = [str(file.path) for file in run.data[purpose].files]
            raise RunError(
                f"{_listed(paths)}: the data have changed: {count} chunks now, "
                f"{tables[purpose].size} when {checkpoint} was written",
                EXIT_DATA,
            )
        sums[purpose] = tables[purpose]
    return sums


def check_at_end(run: RunPlan) -> None:
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


def _other_validation(run: RunPlan, saved: SavedState) -> bool:
    return not same_validation(saved, run.validation_files, run.validation_digests)


def _names(files: Sequence[DataFile]) -> list[str | int]:
    return [file.path.name for file in files]


def _listed(names: Sequence[str | int]) -> str:
    some = ", ".join(str(name) for name in names[:3])
    return some if len(names) <= 3 else f"{some}, ... ({len(names)} files)"


def _of_files(name: str, numbers: Sequence[tuple[int, float]]) -> str:
    """Describes values of a setting in words, such as `shares 0.5 (2 files)`. `numbers`: for each value its count of
    files."""
    listed = ", ".join(f"{number:g} ({count} file{'s' if count != 1 else ''})" for count, number in numbers)
    return f"{name} {listed}" if listed else f"no {name}"


def _recorded(paths: Sequence[Path], known: Recorded) -> list[Path]:
    """Returns the paths whose names are in the checkpoint's record, in its order."""
    recorded: list[Path] = []
    for path in paths:
        if len(recorded) < len(known) and path.name == known[len(recorded)][0]:
            recorded.append(path)
    return recorded
