"""The format `csv`: text with a row on each line, columns apart by commas, tabs or another character."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loader.files.compression import READABLE_ENDINGS
from loader.files.identity import DataFile

if TYPE_CHECKING:
    from loader.formats.file_tools import VerifyResult
    from loader.formats.format import OnProgress
    from loader.rows.category_sample import CategorySample
    from loader.rows.formats.csv.reader import CsvReader
    from loader.rows.statistics.columns import ColumnStatistics
    from loader.stream.config import DataConfig

# late imports: all formats are loaded to find that of a file; what reads files is not

FAMILY = "rows"
SUFFIXES = tuple(f".{name}{packed}" for name in ("csv", "tsv") for packed in READABLE_ENDINGS)


def recognizes(head: bytes) -> bool:  # noqa: ARG001 (any text could be one)
    return False


def open_files(files: Sequence[DataFile], may_grow: bool, skip_damaged: bool) -> CsvReader:
    from loader.rows.formats.csv.reader import CsvReader
    from loader.rows.settings import RowsConfig

    return CsvReader(files, RowsConfig(), may_grow=may_grow, skip_damaged=skip_damaged)


def open_with(config: DataConfig, files: Sequence[DataFile]) -> CsvReader:
    from loader.rows.formats.csv.reader import CsvReader

    return CsvReader(files, config.settings, may_grow=config.may_grow, skip_damaged=config.on_bad_data == "skip")


def texts(config: DataConfig, file: DataFile, column: str) -> Iterator[str]:
    from loader.rows.formats.csv.reader import texts

    return texts(file, config.settings, column, may_grow=config.may_grow)


def category_sample(config: DataConfig, file: DataFile) -> CategorySample:
    from loader.rows.formats.csv.reader import category_sample

    return category_sample(file, config.settings, may_grow=config.may_grow)


def whole_size(file: DataFile) -> int:
    from loader.rows.chunks import whole_size

    return whole_size(file)


def rows_nbytes(file: DataFile) -> tuple[int, int]:
    from loader.rows.memory import text_nbytes

    return text_nbytes(file)


def verify(path: Path, threads: int, progress: OnProgress | None) -> VerifyResult:  # noqa: ARG001
    from loader.rows.formats.csv.file import verify

    return verify(path, progress)


def inspect(path: Path, progress: OnProgress | None) -> ColumnStatistics:
    from loader.rows.formats.csv.file import inspect

    return inspect(path, progress)


def dump(path: Path, limit: int | None) -> Iterator[bytes]:
    from loader.rows.formats.csv.file import dump

    return dump(path, limit)
