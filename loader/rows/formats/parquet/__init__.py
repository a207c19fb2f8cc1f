"""The format `parquet`: columns in row groups, read by pyarrow; a row group is a chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loader.files.identity import DataFile

if TYPE_CHECKING:
    from loader.formats.file_tools import VerifyResult
    from loader.formats.format import OnProgress
    from loader.rows.category_sample import CategorySample
    from loader.rows.formats.parquet.reader import ParquetReader
    from loader.rows.statistics.columns import ColumnStatistics
    from loader.stream.config import DataConfig

# late imports: all formats are loaded to find that of a file; what reads files is not

FAMILY = "rows"
SUFFIXES = (".parquet",)


def recognizes(head: bytes) -> bool:
    return head.startswith(b"PAR1")


def open_files(files: Sequence[DataFile], may_grow: bool, skip_damaged: bool) -> ParquetReader:  # noqa: ARG001
    from loader.rows.formats.parquet.reader import ParquetReader
    from loader.rows.settings import RowsConfig

    return ParquetReader(files, RowsConfig(), skip_damaged=skip_damaged)


def open_with(config: DataConfig, files: Sequence[DataFile]) -> ParquetReader:
    from loader.rows.formats.parquet.reader import ParquetReader

    return ParquetReader(files, config.settings, skip_damaged=config.on_bad_data == "skip")


def texts(config: DataConfig, file: DataFile, column: str) -> Iterator[str]:  # noqa: ARG001 (as others)
    from loader.rows.formats.parquet.reader import texts

    return texts(file, column)


def category_sample(config: DataConfig, file: DataFile) -> CategorySample:
    from loader.rows.formats.parquet.reader import category_sample

    return category_sample(file, config.settings)


def rows_nbytes(file: DataFile) -> tuple[int, int]:
    from loader.rows.formats.parquet.reader import rows_nbytes

    return rows_nbytes(file)


def verify(path: Path, threads: int, progress: OnProgress | None) -> VerifyResult:  # noqa: ARG001
    from loader.rows.formats.parquet.file import verify

    return verify(path, progress)


def inspect(path: Path, progress: OnProgress | None) -> ColumnStatistics:
    from loader.rows.formats.parquet.file import inspect

    return inspect(path, progress)


def dump(path: Path, limit: int | None) -> Iterator[bytes]:
    from loader.rows.formats.parquet.file import dump

    return dump(path, limit)
