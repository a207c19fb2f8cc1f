"""Files of chess positions, opened by the formats that they are in."""

from __future__ import annotations

from collections.abc import Sequence

from loader import _native
from loader.chess.python_reader import PythonChunks
from loader.config import DataConfig
from loader.files.identity import DataFile
from loader.formats import opening
from loader.formats.format import Format, Reader

FAMILY = "chess"
DEFAULT = "binpack"


def format_of(config: DataConfig, file: DataFile) -> Format:
    return opening.format_of(config, file, FAMILY, DEFAULT)


def open_readers(config: DataConfig, files: Sequence[DataFile]) -> list[Reader]:
    return opening.open_readers(config, files, FAMILY, DEFAULT)


def native_reader(reader: Reader) -> _native.PositionReader:
    """As the native stream takes it: what is written in Python is called by the stream's threads."""
    native = getattr(reader, "native", None)
    if isinstance(native, _native.PositionReader):
        return native
    return _native.PythonReader(PythonChunks(reader))
