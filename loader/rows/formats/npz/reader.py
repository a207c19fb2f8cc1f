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
from loader.rows.fields import LABEL, read_dense_names
from loader.rows.settings import RowsConfig

LABELS = "y"
_HEADER_READERS: Mapping[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_READ_ERRORS = (ValueError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError)


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
            with _open_archive(file) as archive, archive.open("indptr.npy") as member:
                shape, _ = _read_header("indptr", member)
                indptr_length, *_ = shape
        except _READ_ERRORS as error:
            raise DataError(file.path, f"can't be used as npz: {error}") from None
        return int(indptr_length) - 1

    def read(self, chunk: int) -> Iterator[Rows]:
        file = self._files[chunk]
        data = read_part(file, 0, file.size, may_grow=self._may_grow)
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                rows = self._read_rows(archive)
        except _READ_ERRORS as error:
            raise DataError(file.path, f"can't be used as npz: {error}") from None
        yield rows

    def _read_rows(self, archive: zipfile.ZipFile) -> Rows:
        """Reads the arrays of an archive and makes rows of them. Raises ValueError for a matrix that is not csr or
        arrays that do not fit together."""
        members = archive.namelist()
        if "format.npy" in members and read_array(archive, "format").tolist() not in (b"csr", "csr"):
            raise ValueError("the matrix is not in the csr format; convert it by .tocsr()")
        dense = {}
        for name in read_dense_names(self._settings):
            dense[name] = read_array(archive, LABELS if name == LABEL else name)
        indptr = read_array(archive, "indptr")
        num_rows = len(indptr) - 1
        if "shape.npy" in members:
            shape = read_array(archive, "shape").tolist()
            if shape[:1] != [num_rows]:
                raise ValueError(f"shape is {shape}, and indptr has {num_rows} rows")
        indices, values = read_array(archive, "indices"), read_array(archive, "data")
        return split_csr_rows(indptr, indices, values, dense, self._settings)


def rows_nbytes(file: DataFile) -> tuple[int, int]:
    """Estimates memory as `loader.rows.memory.SizedFormat` does: the bytes of the arrays, and as many for rows. Raises
    DataError."""
    try:
        with _open_archive(file) as archive:
            size = 2 * sum(member.file_size for member in archive.infolist())
    except _READ_ERRORS as error:
        raise DataError(file.path, f"can't be used as npz: {error}") from None
    return size, size


@contextlib.contextmanager
def _open_archive(file: DataFile) -> Iterator[zipfile.ZipFile]:
    with os.fdopen(open_regular(file.path), "rb") as opened, zipfile.ZipFile(opened) as archive:
        yield archive


def _read_header(name: str, file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Returns shape and dtype of an array from the beginning of its .npy file. Raises ValueError."""
    try:
        version = np.lib.format.read_magic(file)
        if version not in _HEADER_READERS:
            supported = ", ".join(f"{major}.{minor}" for major, minor in _HEADER_READERS)
            raise ValueError(f"expected version {supported}, got {version[0]}.{version[1]}")
        shape, _, dtype = _HEADER_READERS[version](file)
    except ValueError as error:
        raise ValueError(f"array {name!r}: expected one as numpy.save writes it: {error}") from None
    return shape, dtype


def read_array(archive: zipfile.ZipFile, name: str) -> Array:
    """Reads an array of an archive by name. Raises ValueError for an array that is missing or has other bytes than its
    header says, and whatever zipfile raises for a damaged archive."""
    names = archive.namelist()
    if f"{name}.npy" not in names:
        existing = ", ".join(member.removesuffix(".npy") for member in names)
        raise ValueError(f"no array {name!r}; there are {existing or 'none'}")
    data = archive.read(f"{name}.npy")
    with io.BytesIO(data) as file:
        # Checks the header before numpy allocates what it claims.
        shape, dtype = _read_header(name, file)
        if dtype.hasobject:
            raise ValueError(f"{name} has Python objects; numbers are expected")
        if math.prod(shape) * dtype.itemsize != len(data) - file.tell():
            raise ValueError(f"{name} has {len(data) - file.tell()} bytes, and its header says {dtype} {list(shape)}")
        file.seek(0)
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
    if name != "format" and array.ndim != 1:
        raise ValueError(f"{name} has the shape {list(array.shape)}; a row of numbers is expected")
    return array
