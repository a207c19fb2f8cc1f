"""The format `npz`: a numpy archive of the arrays of a scipy.sparse.csr_matrix, and labels. A file is one chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loader.files.identity import DataFile

if TYPE_CHECKING:
    from loader.formats.file_tools import VerifyResult
    from loader.formats.format import OnProgress
    from loader.rows.formats.npz.reader import NpzReader
    from loader.rows.statistics.features import FeatureStatistics
    from loader.stream.config import DataConfig

# late imports: all formats are loaded to find that of a file; what reads files is not

FAMILY = "rows"
SUFFIXES = (".npz",)


def recognizes(head: bytes) -> bool:  # noqa: ARG001 (any zip archive could be one)
    return False


def open_files(files: Sequence[DataFile], may_grow: bool, skip_damaged: bool) -> NpzReader:  # noqa: ARG001
    from loader.rows.formats.npz.reader import NpzReader
    from loader.rows.settings import RowsConfig

    return NpzReader(files, RowsConfig(), may_grow=may_grow)


def open_with(config: DataConfig, files: Sequence[DataFile]) -> NpzReader:
    from loader.rows.formats.npz.reader import NpzReader

    return NpzReader(files, config.settings, may_grow=config.may_grow)


def rows_nbytes(file: DataFile) -> tuple[int, int]:
    from loader.rows.formats.npz.reader import rows_nbytes

    return rows_nbytes(file)


def verify(path: Path, threads: int, progress: OnProgress | None) -> VerifyResult:  # noqa: ARG001 (a file is read at once)
    from loader.rows.formats.npz.file import read_chunks
    from loader.rows.statistics.text import count_rows
    from loader.rows.statistics.verify import verify_rows

    return verify_rows(str(path), count_rows(read_chunks(path)))


def inspect(path: Path, progress: OnProgress | None) -> FeatureStatistics:  # noqa: ARG001
    from loader.rows.formats.npz.file import read_chunks
    from loader.rows.statistics.features import compute_statistics

    return compute_statistics(path, read_chunks(path))


def dump(path: Path, limit: int | None) -> Iterator[bytes]:
    from loader.rows.formats.npz.file import read_chunks
    from loader.rows.statistics.text import format_rows

    return format_rows(read_chunks(path), limit)
