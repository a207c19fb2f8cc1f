"""Opens archives of numpy arrays for the stream."""

from __future__ import annotations

import contextlib
import io
import lzma
import math
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np

from loader.errors import DataError
from loader.files.identity import DataFile
from loader.files.part import read_part
from loader.files.regular import open_regular
from loader.formats.format import Place
from loader.rows.block import Array, Rows
from loader.rows.csr import split_csr_rows
from loader.rows.fields import LABEL, QID, dense_names, optional_dense_names
from loader.rows.settings import RowsConfig

LABELS = "y"
_HEADERS: Mapping[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_DAMAGE = (ValueError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError)


class NpzReader:
    """A `loader.formats.format.Reader` of npz files, where each chunk is a whole file."""

    noun = ""

    def __init__(self, files: Sequence[DataFile], settings: RowsConfig, *, may_grow: bool) -> None:
        self._files = list(files)
        self._settings = settings
        self._may_grow = may_grow
        self.name = ", ".join(str(file.path) for file in files[:3])
        self.num_chunks = len(self._files)

    def place(self, chunk: int) -> Place:
        return Place(self._files[chunk].path, 0)

    def count(self, chunk: int) -> int:
        file = self._files[chunk]
        try:
            with _opened(file) as archive, archive.open("indptr.npy") as member:
                ((count, *_), _) = _header("indptr", member)
        except _DAMAGE as error:
            raise DataError(file.path, f"can't be used as npz: {error}") from None
        return int(count) - 1

    def read(self, chunk: int) -> Iterator[Rows]:
        file = self._files[chunk]
        data = read_part(file, 0, file.size, may_grow=self._may_grow)
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                rows = self._rows(archive)
        except _DAMAGE as error:
            raise DataError(file.path, f"can't be used as npz: {error}") from None
        yield rows

    def _rows(self, archive: zipfile.ZipFile) -> Rows:
        """Reads the arrays of an archive and makes rows of them. Raises ValueError for a matrix that is not csr or
        arrays that do not fit together."""
        if "format.npy" in archive.namelist() and read_array(archive, "format").tolist() not in (b"csr", "csr"):
            raise ValueError("the matrix is not in the csr format; convert it by .tocsr()")
        read = [name for name in dense_names(self._settings) if name not in optional_dense_names(self._settings)]
        names = read + ([QID] if self._settings.qid else [])
        dense = {name: read_array(archive, LABELS if name == LABEL else name) for name in names}
        indptr = read_array(archive, "indptr")
        if "shape.npy" in archive.namelist() and (shape := read_array(archive, "shape").tolist())[:1] != [
            len(indptr) - 1
        ]:
            raise ValueError(f"shape is {shape}, and indptr has {len(indptr) - 1} rows")
        indices, values = read_array(archive, "indices"), read_array(archive, "data")
        return split_csr_rows(indptr, indices, values, dense, self._settings)


def rows_nbytes(file: DataFile) -> tuple[int, int]:
    """Estimates memory as `loader.rows.memory.SizedFormat` does: the bytes of the arrays, and as many for rows. Raises
    DataError."""
    try:
        with _opened(file) as archive:
            size = 2 * sum(member.file_size for member in archive.infolist())
    except _DAMAGE as error:
        raise DataError(file.path, f"can't be used as npz: {error}") from None
    return size, size


@contextlib.contextmanager
def _opened(file: DataFile) -> Iterator[zipfile.ZipFile]:
    with os.fdopen(open_regular(file.path), "rb") as opened, zipfile.ZipFile(opened) as archive:
        yield archive


def _header(name: str, file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Returns shape and dtype of an array from the beginning of its .npy file. Raises ValueError."""
    try:
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            known = ", ".join(f"{major}.{minor}" for major, minor in _HEADERS)
            raise ValueError(f"expected version {known}, got {version[0]}.{version[1]}")
        shape, _, dtype = _HEADERS[version](file)
    except ValueError as error:
        raise ValueError(f"array {name!r}: expected one as numpy.save writes it: {error}") from None
    return shape, dtype


def read_array(archive: zipfile.ZipFile, name: str) -> Array:
    """Reads an array of an archive by name. Raises ValueError for an array that is missing or has other bytes than its
    header says, and whatever zipfile raises for a damaged archive."""
    names = archive.namelist()
    if f"{name}.npy" not in names:
        there = ", ".join(each.removesuffix(".npy") for each in names)
        raise ValueError(f"no array {name!r}; there are {there or 'none'}")
    data = archive.read(f"{name}.npy")
    with io.BytesIO(data) as file:
        # Checks the header before numpy allocates what it claims.
        shape, dtype = _header(name, file)
        if dtype.hasobject:
            raise ValueError(f"{name} has Python objects; numbers are expected")
        if math.prod(shape) * dtype.itemsize != len(data) - file.tell():
            raise ValueError(f"{name} has {len(data) - file.tell()} bytes, and its header says {dtype} {list(shape)}")
        file.seek(0)
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
    if name != "format" and array.ndim != 1:
        raise ValueError(f"{name} has the shape {list(array.shape)}; a row of numbers is expected")
    return array
