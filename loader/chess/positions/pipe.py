"""Positions that come out of a pipe: read once, in the chunks that the same bytes have as a file.

So whatever is made of them is the same as of that file: random filters, games and chains, the place of damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from loader import _native
from loader.chess.formats.binpack.file import damage_error
from loader.chess.positions.input import Changes, Piece, SourceFile
from loader.chess.positions.kind import Kind
from loader.chess.positions.opening import KEPT, IllegalRule
from loader.errors import DataError
from loader.files.pipes import InputPipe

_ENOUGH = (1 << 20) + (1 << 16)  # bytes, of most chunks and what is behind them
_MOST = 1 << 30  # bytes of a chunk
_HEADER = 8  # bytes, of a binpack chunk


class PipedSource:
    """`loader.chess.positions.input.Source`."""

    def __init__(self, pipe: InputPipe, kind: Kind, *, needs_ply: bool, illegal: IllegalRule = KEPT) -> None:
        self.pipe = pipe
        self.kind = kind
        self.changes = Changes()
        self._needs_ply = needs_ply
        self._illegal = illegal
        self._begins: list[int] = []  # of chunks
        self._units = 0  # records, lines or games in them; not of binpack
        self._damage: DataError | None = None

    @property
    def path(self) -> Path:
        return self.pipe.path

    @property
    def size(self) -> int:
        return 0

    @property
    def is_empty(self) -> bool:
        return not self._begins and not self.pipe.fill(1)

    def offset(self, chunk: int) -> int:
        return self._begins[chunk] if chunk < len(self._begins) else self.pipe.taken

    def chunks(self, first: int = 0) -> Iterator[Piece]:
        assert first == len(self._begins), "a pipe is read once"
        read = self._next_chunk if self.kind.is_binpack else self._next_units
        while self.pipe.fill(1):
            begin = self.pipe.taken
            if (opened := read(begin)) is None:
                return
            self._begins.append(begin)
            yield SourceFile(self.path, self.kind, opened, None, self._illegal), 0

    def check_end(self) -> None:
        if self._damage is not None:
            raise self._damage

    def call_while_waiting(self, check: Callable[[], object]) -> None:
        self.pipe.waiting = check

    def _next_chunk(self, begin: int) -> _native.BinpackFile | None:
        self.pipe.fill(_HEADER)
        wanted = _native.chunk_bytes(bytes(self.pipe.held[:_HEADER])) or _HEADER
        self.pipe.fill(wanted)
        found = _native.BinpackFile.hold(self.path, self.pipe.take(wanted), begin, *self._illegal)
        if found.header_damage is not None:
            self._damage = damage_error(self.path, found.header_damage, in_chunk=False)
            return None
        return found

    def _next_units(self, begin: int) -> _native.EntryFile:
        codec = self.kind.codec
        data = self.pipe.take(self._next_size(codec, begin))
        found = _native.hold_entries(codec, self.path, data, begin, self._units, self._needs_ply, *self._illegal)
        self._units += _native.count_units(codec, data)
        return found

    def _next_size(self, codec: _native.Codec, begin: int) -> int:
        wanted = _ENOUGH
        while True:
            last = not self.pipe.fill(wanted)
            if size := _native.first_piece(codec, bytes(self.pipe.held), begin, last):
                return size
            if wanted > _MOST:
                raise DataError(self.path, f"a {codec.unit} of more than 1 GiB", begin)
            wanted = 2 * len(self.pipe.held)
