"""Files of chess positions, opened by the formats that they are in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from loader import _native
from loader.chess.python_reader import PythonChunks
from loader.config import DataConfig
from loader.errors import DataError
from loader.files.identity import DataFile
from loader.formats.format import Format, Reader
from loader.formats.registry import format_by_name, format_of_file

FAMILY = "chess"
DEFAULT = "binpack"  # of a file that no format claims: it says what is wrong with it


def format_of(config: DataConfig, file: DataFile) -> str:
    """The name of its format. Raises ValueError for a format that is no format, or not of chess."""
    if config.format is None:
        return format_of_file(file.path, FAMILY) or DEFAULT
    return config.format


def chess_format(name: str) -> Format:
    """Raises ValueError."""
    found = format_by_name(name)
    if found.FAMILY != FAMILY:
        raise ValueError(f"data.format: {name!r} holds records of {found.FAMILY}, and data.source is {FAMILY}")
    return found


def open_readers(config: DataConfig, files: Sequence[DataFile]) -> list[Reader]:
    """A reader for each run of files of one format, in the order of the files.

    Raises DataError for what can't be used, ValueError for settings that can't be served.
    """
    if not files:
        raise ValueError("data.train: no file is given")
    skip_damaged = config.on_bad_data == "skip"
    readers = [
        chess_format(name).open_files(list(group), may_grow=config.may_grow, skip_damaged=skip_damaged)
        for name, group in groupby(files, lambda file: format_of(config, file))
    ]
    if not any(reader.num_chunks for reader in readers):
        names = ", ".join(str(file.path) for file in files[:3])
        raise DataError(names, "there is nothing to read: no file has a chunk")
    return readers


def native_reader(reader: Reader) -> _native.PositionReader:
    """As the native stream takes it: what is written in Python is called by the stream's threads."""
    native = getattr(reader, "native", None)
    if isinstance(native, _native.PositionReader):
        return native
    return _native.PythonReader(PythonChunks(reader))
