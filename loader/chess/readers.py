"""Files of chess positions, opened by the formats that they are in."""

from __future__ import annotations

from collections.abc import Sequence

from loader import _native
from loader.chess.filters import needs
from loader.chess.python_reader import PythonChunks
from loader.config import DataConfig
from loader.files.identity import DataFile
from loader.formats import opening
from loader.formats.format import Format, Reader

FAMILY = "chess"


def format_of(config: DataConfig, file: DataFile) -> Format:
    """As `loader.formats.opening.format_of`."""
    return opening.format_of(config, file, FAMILY, "binpack")


def open_readers(config: DataConfig, files: Sequence[DataFile]) -> list[Reader]:
    """As `loader.formats.opening.open_readers`; a filter that needs what a format lacks is a ValueError, too."""
    wanted = needs(config.settings.filters)
    for file in files if wanted else ():
        lacks = getattr(format_of(config, file), "LACKS", ())
        for need in wanted:
            if need.part in lacks:
                raise ValueError(
                    f"data.chess.filters.{need.key}: {need}, which files in {name_of(config, file)} do not have "
                    f"({file.path}); leave {'that' if need.name else 'the filter'} out, or use data in another format"
                )
    return opening.open_readers(config, files, format_of)


def name_of(config: DataConfig, file: DataFile) -> str:
    return str(format_of(config, file).__name__).rpartition(".")[2]  # type: ignore[attr-defined]


def native_reader(reader: Reader) -> _native.PositionReader:
    """As the native stream takes it: what is written in Python is called by the stream's threads."""
    native = getattr(reader, "native", None)
    if isinstance(native, _native.PositionReader):
        return native
    return _native.PythonReader(PythonChunks(reader))


def in_file_order(readers: Sequence[Reader]) -> bool:
    """Whether chunks are not permuted, since some are best read one after the other."""
    return any(native_reader(reader).in_file_order for reader in readers)
