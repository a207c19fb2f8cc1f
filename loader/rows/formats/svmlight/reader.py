"""Opens svmlight files for the stream. The native part reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loader import _native
from loader.files.identity import DataFile
from loader.formats.format import Place
from loader.rows.block import Rows
from loader.rows.chunks import read_native_chunk
from loader.rows.fields import LABEL, WEIGHT
from loader.rows.formats.svmlight.file import unrestricted_shape
from loader.rows.settings import RowsConfig


class SvmlightReader:
    """A `loader.formats.format.Reader` of svmlight files. What it reads in Python has a single field `features`, with
    the numbers as they are in the file."""

    def __init__(
        self, files: Sequence[DataFile], settings: RowsConfig, *, may_grow: bool, skip_damaged: bool = False
    ) -> None:
        """Opens the files. Raises ValueError for dense numbers that svmlight rows do not have."""
        if settings.dense:
            raise ValueError(
                f"data.rows.dense: {settings.dense[0]!r}, but svmlight files have no further numbers than {LABEL}, "
                f"{WEIGHT} and qid: leave data.rows.dense out"
            )
        line_files = [_native.LineFile(file.path, file.identity, may_grow) for file in files]
        self._places: list[Place] = []
        for file, line_file in zip(files, line_files, strict=True):
            self._places += [Place(file.path, chunk, line_file.offset(chunk)) for chunk in range(line_file.num_chunks)]
        self.native = _native.SvmlightReader(line_files)
        if skip_damaged:
            self.native.skip_damage()

    @property
    def name(self) -> str:
        return self.native.name

    @property
    def num_chunks(self) -> int:
        return self.native.num_chunks

    def place(self, chunk: int) -> Place:
        return self._places[chunk]

    def read(self, chunk: int) -> Iterator[Rows]:
        rows, error = read_native_chunk(self.native, chunk, unrestricted_shape())
        yield rows
        if error is not None:
            raise error
