"""Svmlight files, opened for the stream. The work is done by the native part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loader import _native
from loader.files.identity import DataFile
from loader.formats.format import Place
from loader.formats.svmlight.file import read_chunk
from loader.rows.block import Rows


class SvmlightReader:
    """`loader.formats.format.Reader`. What is written here has one field `features`, of all numbers as they stand."""

    def __init__(self, files: Sequence[DataFile], *, may_grow: bool) -> None:
        opened = [(known, _native.SvmlightFile(known.path, known.identity, may_grow)) for known in files]
        self._places = [
            Place(known.path, chunk, file.offset(chunk)) for known, file in opened for chunk in range(file.num_chunks)
        ]
        self.native = _native.SvmlightReader([file for _, file in opened])

    @property
    def name(self) -> str:
        return self.native.name

    @property
    def num_chunks(self) -> int:
        return self.native.num_chunks

    def place(self, chunk: int) -> Place:
        return self._places[chunk]

    def read(self, chunk: int) -> Iterator[Rows]:
        rows, error = read_chunk(self.native, chunk)
        yield rows
        if error is not None:
            raise error


def whole_size(file: DataFile) -> int:
    """Without a last line that has no end yet."""
    return _native.SvmlightFile(file.path, file.identity, may_grow=True).whole_size
