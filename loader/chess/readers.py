"""Files of chess positions, opened by the formats that they are in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from loader import _native
from loader.chess.filters import needed_parts, needs
from loader.chess.positions.entry import Entry
from loader.chess.python_reader import PythonChunks
from loader.files.identity import DataFile
from loader.formats import readers
from loader.formats.format import Format, Place, Reader
from loader.stream.config import DataConfig

FAMILY = "chess"


class ScaledReader:
    """`loader.formats.format.Reader` of files whose scores are multiplied."""

    def __init__(self, reader: Reader, scale: float, needed: Sequence[str], *, skips: bool) -> None:
        self._reader = reader
        self._scale = scale
        self.native = _native.ScaledReader(native_reader(reader, needed, skips=skips), scale)

    @property
    def name(self) -> str:
        return self._reader.name

    @property
    def num_chunks(self) -> int:
        return self._reader.num_chunks

    def place(self, chunk: int) -> Place:
        return self._reader.place(chunk)

    def read(self, chunk: int) -> Iterator[Entry]:
        for entry in self._reader.read(chunk):
            yield replace(entry, score=_native.scaled_score(entry.score, self._scale))


def format_of(config: DataConfig, file: DataFile) -> Format:
    """Finds a file's format as `loader.formats.readers.format_of`; otherwise it is binpack."""
    return readers.format_of(config, file, FAMILY, "binpack")


def open_readers(config: DataConfig, files: Sequence[DataFile]) -> list[Reader]:
    """Opens files as `loader.formats.readers.open_readers`; a filter that needs what a format lacks is a ValueError,
    too."""
    wanted = needs(config.settings.filters)
    for file in files if wanted else ():
        lacks = getattr(format_of(config, file), "LACKS", ())
        for need in wanted:
            if need.part in lacks:
                name = readers.name_of(config, format_of(config, file))
                raise ValueError(
                    f"data.chess.filters.{need.key}: {need}, which files in {name} do not have "
                    f"({file.path}); leave {'that' if need.name else 'the filter'} out, or use data in another format"
                )
    parts = needed_parts(config.settings.filters)
    groups = [(scale, list(group)) for scale, group in groupby(files, lambda file: file.score_scale)]
    opened: list[Reader] = []
    for scale, group in groups or [(1.0, [])]:
        group_readers = readers.open_readers(config, group, format_of)
        opened += (
            group_readers
            if scale == 1.0
            else [ScaledReader(reader, scale, parts, skips=config.on_bad_data == "skip") for reader in group_readers]
        )
    return opened


def native_reader(reader: Reader, needed: Sequence[str] = (), *, skips: bool = False) -> _native.PositionReader:
    """Returns a reader as the native stream takes it: one written in Python is called by the stream's threads, and an
    entry of it that lacks a part of `needed` is damage. `skips`: such entries, and others that can't be used, are left
    out."""
    native = getattr(reader, "native", None)
    if isinstance(native, _native.PositionReader):
        return native
    return _native.PythonReader(PythonChunks(reader, needed, skips=skips))
