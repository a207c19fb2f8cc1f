"""Files of rows, opened by the formats that they are in; without files, rows of a user's code or of a known model."""

from __future__ import annotations

from collections.abc import Sequence

from loader import _native
from loader.config import DataConfig
from loader.files.identity import DataFile
from loader.formats import opening
from loader.formats.format import Format, Reader
from loader.rows.python_reader import PythonBlocks
from loader.rows.settings import RowsConfig

FAMILY = "rows"


def format_of(config: DataConfig, file: DataFile) -> Format:
    """As `loader.formats.opening.format_of`."""
    return opening.format_of(config, file, FAMILY, "svmlight")


def open_readers(config: DataConfig, files: Sequence[DataFile], *, validation: bool = False) -> list[Reader]:
    """As `loader.formats.opening.open_readers`; without files, of what the settings name instead of them."""
    settings: RowsConfig = config.settings
    if not files and not settings.blocks and not settings.synthetic.num_rows:
        raise ValueError(
            "data.train: no file is given; name files, or set data.rows.synthetic.num_rows or data.rows.blocks"
        )
    if files:
        return opening.open_readers(config, files, format_of)
    if settings.blocks:
        from loader.rows.blocks import BlocksReader

        key = "validation_blocks" if validation else "blocks"
        return [BlocksReader(f"data.rows.{key}", getattr(settings, key), settings)]
    from loader.rows.synthetic import SyntheticReader

    return [SyntheticReader(settings, validation=validation)]


def native_reader(reader: Reader, shape: _native.RowShape) -> _native.RowReader:
    """As the native stream takes it: what is written in Python is called by the stream's threads."""
    native = getattr(reader, "native", None)
    if isinstance(native, _native.RowReader):
        return native
    return _native.PythonRowReader(PythonBlocks(reader, shape))
