"""Opens the files of a source with the formats that they have."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TypeVar

from loader.errors import DataError
from loader.files.identity import DataFile
from loader.formats.format import ConfiguredFormat, Format, Reader
from loader.formats.registry import load_format, resolve_format
from loader.stream.config import DataConfig

log = logging.getLogger(__name__)

Opened = TypeVar("Opened")


def resolve_file_format(config: DataConfig, file: DataFile, family: str) -> Format:
    """Finds the format of a file as `resolve_format` does: the one that data.format names, or what the file's content
    says. With data.on_bad_data = "skip" a file that can't be read has a format, too, and is left out later.

    Raises DataError, and ValueError if data.format is no format or not one of the family.
    """
    if config.format is not None:
        load_family_format(config.format, family)
    name = resolve_format(
        file.path,
        setting="data.format",
        name=config.format,
        family=family,
        is_strict=config.on_bad_data != "skip",
    )
    return load_family_format(name, family)


def format_name(config: DataConfig, file_format: Format) -> str:
    """Returns the name of a file's format as data.format spells it."""
    if config.format is not None:
        return config.format
    return str(file_format.__name__).rpartition(".")[2]  # type: ignore[attr-defined]  # bundled: a module


def load_family_format(name: str, family: str) -> Format:
    """Returns the format of this name. Raises ValueError if there is none, or if its files hold records of another
    family."""
    file_format = load_format(name)
    if family != file_format.FAMILY:
        raise ValueError(f"data.format: {name!r} holds records of {file_format.FAMILY}, and data.source is {family}")
    return file_format


def open_readers(config: DataConfig, files: Sequence[DataFile], family: str) -> list[Reader]:
    """Opens the files, with one reader for each run of consecutive files of one format. Returns the readers in the
    order of the files.

    Raises DataError for files that can't be used, ValueError for settings that can't be served.
    """
    if not files:
        raise ValueError("data.train: no file is given")
    readers = [
        _open_reader(config, file_format, list(group))
        for file_format, group in groupby(files, lambda file: resolve_file_format(config, file, family))
    ]
    if not any(reader.num_chunks for reader in readers):
        names = ", ".join(str(file.path) for file in files[:3])
        raise DataError(names, "there is nothing to read: no file has an entry")
    return readers


def _open_reader(config: DataConfig, file_format: Format, files: Sequence[DataFile]) -> Reader:
    if isinstance(file_format, ConfiguredFormat):
        return file_format.open_with(config, files)
    return file_format.open_files(files, may_grow=config.may_grow, skip_damaged=config.on_bad_data == "skip")


def open_usable_files(
    files: Sequence[DataFile], open_file: Callable[[DataFile], Opened], *, skip_damaged: bool
) -> list[Opened]:
    """Opens each file with `open_file` and returns the results. With `skip_damaged` a file that raises DataError is
    left out with a warning, unless all do. Without it the first such error is raised."""
    opened, errors = [], []
    for file in files:
        try:
            opened.append(open_file(file))
        except DataError as error:
            errors.append(error)
    can_skip = skip_damaged and opened
    if errors and not can_skip:
        raise errors[0]
    for file_error in errors:
        log.warning("%s: the file is left out (data.on_bad_data)", file_error)
    return opened
