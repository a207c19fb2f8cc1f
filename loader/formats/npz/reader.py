"""Archives of numpy arrays, opened for the stream."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from loader.errors import DataError
from loader.files.identity import DataFile
from loader.files.part import read_part
from loader.formats.format import Place
from loader.rows.block import Array, Rows
from loader.rows.csr import rows_of_csr
from loader.rows.fields import LABEL, QID, dense_names
from loader.rows.settings import RowsConfig

LABELS = "y"


class NpzReader:
    """`loader.formats.format.Reader`: a chunk is a file, which is read whole."""

    def __init__(self, files: Sequence[DataFile], settings: RowsConfig, *, may_grow: bool) -> None:
        self._files = list(files)
        self._settings = settings
        self._may_grow = may_grow
        self.name = ", ".join(str(file.path) for file in files[:3])
        self.num_chunks = len(self._files)

    def place(self, chunk: int) -> Place:
        return Place(self._files[chunk].path, 0)

    def read(self, chunk: int) -> Iterator[Rows]:
        file = self._files[chunk]
        data = read_part(file, 0, file.size, may_grow=self._may_grow)
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                if not isinstance(archive, np.lib.npyio.NpzFile):
                    raise ValueError("is one array, not an archive of arrays")
                rows = self._rows(archive)
        except (ValueError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise DataError(file.path, f"can't be used as npz: {error}") from None
        yield rows

    def _rows(self, archive: Any) -> Rows:
        if "format" in archive.files and archive["format"].item() not in (b"csr", "csr"):
            raise ValueError("the matrix is not in the csr format; convert it by .tocsr()")
        names = dense_names(self._settings) + ([QID] if self._settings.qid else [])
        dense = {name: _array(archive, LABELS if name == LABEL else name) for name in names}
        indptr, indices = _array(archive, "indptr"), _array(archive, "indices")
        for name, numbers in dense.items():
            if numbers.shape != (len(indptr) - 1,):
                raise ValueError(f"{name} has the shape {list(numbers.shape)} for {len(indptr) - 1} rows")
        return rows_of_csr(indptr, indices, _array(archive, "data"), dense, self._settings)


def _array(archive: Any, name: str) -> Array:
    if name not in archive.files:
        raise ValueError(f"no array {name!r}; there are {', '.join(archive.files)}")
    array: Array = archive[name]
    return array
