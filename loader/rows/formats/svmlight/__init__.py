"""The format `svmlight`, also known as libsvm: lines of a label and pairs NUMBER:VALUE, plain or compressed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loader.files.compression import READABLE_ENDINGS
from loader.files.identity import DataFile

if TYPE_CHECKING:
    from loader.formats.file_tools import VerifyResult
    from loader.formats.format import OnProgress
    from loader.rows.formats.svmlight.reader import SvmlightReader
    from loader.rows.statistics.features import FeatureStatistics
    from loader.stream.config import DataConfig

# late imports: all formats are loaded to find that of a file; what reads files is not

FAMILY = "rows"
SUFFIXES = tuple(f".{name}{packed}" for name in ("svm", "svmlight", "libsvm") for packed in READABLE_ENDINGS)
_LINE = re.compile(
    rb"\s*(#[^\n]*\n\s*)*[-+]?[0-9.]+([eE][-+]?[0-9]+)?(:[0-9.]+)?([ \t]+qid:[0-9]+)?[ \t]+[0-9]+:[-+0-9.]"
)


def recognizes(head: bytes) -> bool:
    return _LINE.match(head) is not None


def open_files(files: Sequence[DataFile], may_grow: bool, skip_damaged: bool) -> SvmlightReader:
    from loader.rows.formats.svmlight.reader import SvmlightReader
    from loader.rows.settings import RowsConfig

    return SvmlightReader(files, RowsConfig(), may_grow=may_grow, skip_damaged=skip_damaged)


def open_with(config: DataConfig, files: Sequence[DataFile]) -> SvmlightReader:
    from loader.rows.formats.svmlight.reader import SvmlightReader

    skip_damaged = config.on_bad_data == "skip"
    return SvmlightReader(files, config.settings, may_grow=config.may_grow, skip_damaged=skip_damaged)


def whole_size(file: DataFile) -> int:
    from loader.rows.chunks import whole_size

    return whole_size(file)


def rows_nbytes(file: DataFile) -> tuple[int, int]:
    from loader.rows.memory import text_nbytes

    return text_nbytes(file)


def verify(path: Path, threads: int, progress: OnProgress | None) -> VerifyResult:  # noqa: ARG001 (disk or zlib limits)
    from loader.rows.formats.svmlight.file import read_chunks
    from loader.rows.statistics.text import count_rows
    from loader.rows.statistics.verify import verify_rows

    return verify_rows(str(path), count_rows(read_chunks(path, progress)))


def inspect(path: Path, progress: OnProgress | None) -> FeatureStatistics:
    from loader.rows.formats.svmlight.file import read_chunks
    from loader.rows.statistics.features import compute_statistics

    return compute_statistics(path, read_chunks(path, progress))


def dump(path: Path, limit: int | None) -> Iterator[bytes]:
    from loader.rows.formats.svmlight.file import read_chunks
    from loader.rows.statistics.text import format_rows

    return format_rows(read_chunks(path), limit)
