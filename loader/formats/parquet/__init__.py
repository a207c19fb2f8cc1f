"""The format `parquet`: columns in row groups, read by pyarrow; a row group is a chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loader.files.identity import DataFile

if TYPE_CHECKING:
    from loader.config import DataConfig
    from loader.formats.parquet.reader import ParquetReader

FAMILY = "rows"
SUFFIXES = (".parquet",)


def recognizes(head: bytes) -> bool:
    return head.startswith(b"PAR1")


def open_files(files: Sequence[DataFile], may_grow: bool, skip_damaged: bool) -> ParquetReader:  # noqa: ARG001
    from loader.formats.parquet.reader import ParquetReader
    from loader.rows.settings import RowsConfig

    return ParquetReader(files, RowsConfig(), skip_damaged=skip_damaged)


def open_with(config: DataConfig, files: Sequence[DataFile]) -> ParquetReader:
    from loader.formats.parquet.reader import ParquetReader

    return ParquetReader(files, config.settings, skip_damaged=config.on_bad_data == "skip")
