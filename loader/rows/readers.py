"""Opens files of rows with the formats that they have. Without files, opens the rows of a user's code or of a known
model."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from loader import _native
from loader.files.identity import DataFile
from loader.formats import readers
from loader.formats.format import ColumnFormat, Reader
from loader.rows.blocks import BlocksReader
from loader.rows.python_reader import PythonBlocks
from loader.rows.settings import RowsConfig
from loader.rows.synthetic import SyntheticReader
from loader.stream.config import DataConfig

FAMILY = "rows"


def open_readers(config: DataConfig, files: Sequence[DataFile], *, validation: bool = False) -> list[Reader]:
    """Opens files as `loader.formats.readers.open_readers` does. Without files it opens data.rows.blocks (or
    data.rows.validation_blocks), or else made-up rows of data.rows.synthetic.

    Raises ValueError if the settings name no rows.
    """
    settings: RowsConfig = config.settings
    if not files and not settings.blocks and not settings.synthetic.num_rows:
        raise ValueError(
            "data.train: no file is given; name files, or set data.rows.synthetic.num_rows or data.rows.blocks"
        )
    if files:
        return readers.open_readers(config, files, FAMILY)
    if settings.blocks:
        key = "validation_blocks" if validation else "blocks"
        return [BlocksReader(f"data.rows.{key}", getattr(settings, key), settings)]
    return [SyntheticReader(settings, validation=validation)]


def without_labels(config: DataConfig) -> DataConfig:
    """Returns the config changed so that rows need not have labels. The config of any other source stays as it is."""
    if not isinstance(config.settings, RowsConfig):
        return config
    section = type(config).section
    assert section is not None
    return config.model_copy(update={section: config.settings.model_copy(update={"label": "none"})})


def read_column_texts(config: DataConfig, files: Sequence[DataFile], column: str) -> Iterator[str]:
    """Yields the value in one column of every row of the files, in their order. `column`: a name, or a number if the
    columns have no names.

    Raises ValueError for data without such columns. Raises DataError, also when it comes to a file without the column.
    """
    if not isinstance(config.settings, RowsConfig):
        raise ValueError(f"--id {column}: samples of data.source = {config.source} have no columns with names")
    formats = []
    for file in files:
        file_format = readers.resolve_file_format(config, file, FAMILY)
        if not isinstance(file_format, ColumnFormat):
            raise ValueError(f"--id {column}: {file.path} has no columns with names, as csv and parquet have")
        formats.append((file, file_format))
    return itertools.chain.from_iterable(file_format.texts(config, file, column) for file, file_format in formats)


def as_native_reader(reader: Reader, shape: _native.RowShape) -> _native.RowReader:
    """Returns the native reader of a reader. Wraps a reader that is written in Python, which the stream's threads
    then call."""
    native = getattr(reader, "native", None)
    if isinstance(native, _native.RowReader):
        return native
    return _native.PythonRowReader(PythonBlocks(reader, shape))
