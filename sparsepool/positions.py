"""Reads and writes files of chess positions as numpy records: `open` to read, `write` to write. No Python code runs for
each position."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt

from loader import _native
from loader.chess.filters import MOVE, FilterConfig, filter_needs
from loader.chess.filters.where import compile_condition
from loader.chess.positions.format import PositionFormat, lost_parts, named_format, target_from_name
from loader.chess.positions.input import SourceChunk, SourceFile, open_sources
from loader.chess.positions.output import Output, check_output
from loader.chess.positions.table import Table, dtype_of, missing_parts, read_table, rows_of
from loader.cores import allowed_cores
from loader.formats.parallel import map_in_order
from sparsepool.errors import SparsepoolError, translate_errors

THREADS = min(allowed_cores(), 8)
BLOCK = 1 << 16  # positions


def open(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    threads: int = THREADS,
) -> Positions:
    """Opens a file of chess positions for reading, any number of times and by any number of readers.

    path: a file in any of the chess formats, plain or compressed (docs/reference/formats.md).
    format: the format's name, if neither the file's bytes nor its name say it.
    threads: number of threads that decode ahead of the reader; they do not change the result.

    Raises SparsepoolError for a file that does not exist, has no known format, or is damaged at its beginning.
    """
    if threads < 1:
        raise SparsepoolError(f"threads: must be 1 or more, not {threads}")
    with translate_errors():
        (source,) = open_sources([Path(path)], format)
    return Positions(source, threads)


class Positions:
    """The positions of a file, in its order. Iterating gives blocks: structured arrays of up to 65,536 positions.

    Fields (squares: a1 0, h1 7, h8 63); those that the format does not have are absent from `dtype`:

    board         int8 [64]  by square: White's pawn 1, knight 2, bishop 3, rook 4, queen 5, king 6; Black's negative
    score         int16      the side to move's view, in the file's units; 32002: none
    result        int8       of the game for the side to move: -1, 0, 1; -128: none
    ply           uint16     half-moves since the start of the game
    side_to_move  uint8      0 White, 1 Black
    castling      uint8 [4]  squares of the rooks that may castle: White's on the king's side, on the queen's side,
                             Black's likewise; 64: none
    en_passant    uint8      square that a pawn has passed; 64: none
    clock         uint16     half-moves since a pawn move or a capture
    move_from     uint8      square; 64: no move
    move_to       uint8      square; castling: of the own rook; 64: no move
    promotion     uint8      a piece as on the board, without a sign; 0: none

    format: the name of its format. dtype: of the blocks, 80 bytes a position.
    """

    def __init__(self, source: SourceFile, threads: int, conditions: tuple[_native.Where, ...] = ()) -> None:
        self.format = source.format.name
        self.dtype: np.dtype[np.void] = dtype_of(source.format.lacks)
        self._source = source
        self._threads = threads
        self._conditions = conditions

    def where(self, condition: str) -> Positions:
        """Returns the positions for which the expression holds, as 'ply >= 16 and not in_check'
        (docs/reference/configuration.md). Several conditions are joined by "and".

        Raises SparsepoolError for an invalid expression, or one that needs what the format does not have.
        """
        source = self._source
        with translate_errors():
            needed = filter_needs(FilterConfig(skip_no_score=False, where=condition))
            for need in needed:
                if need.part in source.format.lacks:
                    raise ValueError(f"where: {need}, which {self.format} does not have ({source.path})")
            if needed:
                (source,) = open_sources([source.path], self.format, needed=[need.part for need in needed])
            conditions = (*self._conditions, compile_condition(condition))
        return Positions(source, self._threads, conditions)

    def __iter__(self) -> Iterator[Table]:
        return self.blocks()

    def blocks(self, most: int = BLOCK) -> Iterator[Table]:
        """Yields arrays of up to `most` positions, which are the caller's to keep. Arrays at the ends of the file's
        chunks are shorter.

        Raises SparsepoolError at damage, after the positions of the chunks before it.
        """
        if most < 1:
            raise SparsepoolError(f"most: must be 1 or more, not {most}")
        with translate_errors():
            for table in map_in_order(self._read, self._source.chunks(), self._threads):
                for begin in range(0, len(table), most):
                    yield table[begin : begin + most]
            self._source.check_end()

    def count(self) -> int:
        """Counts the positions for which all conditions hold. Reads the file."""
        if not self._conditions:
            with translate_errors():
                counted = map_in_order(self._count, self._source.chunks(), self._threads)
                total = sum(counted)
                self._source.check_end()
            return total
        return sum(map(len, self))

    def _read(self, piece: SourceChunk) -> Table:
        return read_table(*piece, self.dtype, self._conditions)

    def _count(self, piece: SourceChunk) -> int:
        file, chunk = piece
        judged = file.check_chunk(chunk)
        if judged.damage is not None:
            raise judged.damage
        return judged.entries


def write(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    lossy: bool = False,
) -> PositionWriter:
    """Creates a new file of positions. A context manager, to which blocks of positions are added.

        with sparsepool.write("quiet.bf", lossy=True) as out:
            for block in sparsepool.open("games.viri").where("not in_check"):
                out.add(block[abs(block["score"]) < 1000])

    path: its ending says format and compression, as for `loader convert`. The file appears when the `with` block ends,
        and never replaces another file; an exception leaves nothing.
    format: the format's name, if the ending is not that format's.
    lossy: leaves out fields that the format has no room for; without it they are an error.

    Raises SparsepoolError.
    """
    with translate_errors():
        target = target_from_name(Path(path), format)
        check_output(Path(path), 0)
    return PositionWriter(Output(Path(path), target), lossy=lossy)


class PositionWriter:
    """Writes positions to a new file; `write` makes it. In formats with games or chains, consecutive positions of which
    each follows from the previous one become a game or chain."""

    def __init__(self, output: Output, *, lossy: bool) -> None:
        self._output = output
        self._format: PositionFormat = output.target.format
        self._lossy = lossy
        self._encoder = self._format.make_writer()

    @property
    def count(self) -> int:
        """Returns the number of positions that were added."""
        return int(self._encoder.entries)

    def add(self, positions: npt.NDArray[Any]) -> None:
        """Appends a structured array [positions] with fields of `Positions`, in any order: board, score and result, and
        any others. A field that is absent gets the value for "none": White to move, no rights, ply 0.

        Raises SparsepoolError for other fields or dtypes, for an invalid position, and for one that the format can't
        hold, with its number.
        """
        with translate_errors():
            rows = rows_of(positions)
            self._check_parts(PositionFormat("array", missing_parts(positions)))
            before = self.count
            refused = cast("tuple[int, str] | None", _native.add_rows(self._encoder, rows))
            if refused is not None:
                number, reason = refused
                raise ValueError(f"position {before + number} of those added: {reason}")
            self._output.write_encoded(self._encoder.take())

    def _check_parts(self, array: PositionFormat) -> None:
        """Raises ValueError if positions with the fields of `array` would lose some in this format, unless lossy, or
        lack the moves that it needs."""
        format = self._format
        lost = lost_parts(array, format)
        if lost and not self._lossy:
            raise ValueError(
                f"{format.name} has no room for the {', '.join(lost)} of positions; lossy=True leaves it out"
            )
        if format.codec.has_games and MOVE in array.lacks:
            raise ValueError(f"{format.name} can't be written without moves: positions need move_from and move_to")

    def __enter__(self) -> Self:
        with translate_errors():
            self._output.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Writes the remaining positions and gives the file its name. Removes the file if the block has raised an
        exception."""
        try:
            if kind is None:
                with translate_errors():
                    self._encoder.finish()
                    self._output.write_encoded(self._encoder.take())
                    self._output.publish()
        finally:
            self._output.__exit__(kind, error, trace)


def position_dtype(format: str | None = None) -> np.dtype[np.void]:
    """Returns the dtype of the positions of a format, for arrays of your own. Without a format it has all fields.
    Raises SparsepoolError."""
    with translate_errors():
        return dtype_of(() if format is None else named_format(format).lacks)
