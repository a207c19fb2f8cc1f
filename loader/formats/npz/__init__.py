"""The format `npz`: a matrix in numpy's archive, as scipy.sparse.csr_matrix has it, and labels; a file is a chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loader.files.identity import DataFile

if TYPE_CHECKING:
    from loader.config import DataConfig
    from loader.formats.npz.reader import NpzReader

FAMILY = "rows"
SUFFIXES = (".npz",)


def recognizes(head: bytes) -> bool:  # noqa: ARG001 (any zip archive could be one)
    return False


def open_files(files: Sequence[DataFile], may_grow: bool, skip_damaged: bool) -> NpzReader:  # noqa: ARG001
    from loader.formats.npz.reader import NpzReader
    from loader.rows.settings import RowsConfig

    return NpzReader(files, RowsConfig(), may_grow=may_grow)


def open_with(config: DataConfig, files: Sequence[DataFile]) -> NpzReader:
    from loader.formats.npz.reader import NpzReader

    return NpzReader(files, config.settings, may_grow=config.may_grow)
