"""Opening books: positions that games begin with, from EPD, FEN or PGN."""

from __future__ import annotations

import hashlib
import io
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import chess
import chess.pgn

from loader.errors import DataError


@dataclass(frozen=True)
class Book:
    """Positions with a move to be made; at least one."""

    path: Path
    digest: str  # SHA-256 of the file
    positions: tuple[str, ...]  # FEN or EPD
    lines: tuple[int, ...]  # of each, in the file

    def order(self, seed: str) -> list[int]:
        """All positions in the order in which games take them."""
        numbers = list(range(len(self.positions)))
        random.Random(f"{seed}/book").shuffle(numbers)
        return numbers

    def board(self, number: int) -> chess.Board:
        return parse_position(self.positions[number])

    def check(self, max_ply: int) -> None:
        """Raises DataError that names the line of a position that is wrong, over, or at `max_ply` or beyond."""
        for number, line in enumerate(self.lines):
            try:
                fault = why_no_opening(self.board(number), max_ply)
            except ValueError as error:
                fault = str(error)
            if fault:
                raise DataError(self.path, f"line {line}: {fault}")


def read_book(path: Path) -> Book:
    """A PGN file by its name or its first character, else a position a line. In PGN the end of each game counts.

    Raises DataError that names the line of what is no text or no game; positions are not looked at.
    """
    if not path.is_file():
        raise DataError(path, "is not a file" if path.exists() else "No such file or directory")
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(path, f"line {content[: error.start].count(10) + 1}: is not UTF-8 text") from None
    pgn = path.suffix.lower() == ".pgn" or text.lstrip().startswith("[")
    found = list(positions_of_pgn(path, text) if pgn else positions_of_epd(text))
    if not found:
        raise DataError(path, "holds no positions")
    lines, positions = zip(*found, strict=True)
    return Book(path, hashlib.sha256(content).hexdigest(), positions, lines)


def positions_of_epd(text: str) -> Iterator[tuple[int, str]]:
    """Line number and line. Empty lines and those that begin with # are left out."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.strip()


def parse_position(text: str) -> chess.Board:
    """A FEN with its two counters, or an EPD with operations."""
    fields = text.split()
    if len(fields) >= 6 and fields[4].isdecimal() and fields[5].rstrip(";").isdecimal():
        return chess.Board(" ".join([*fields[:5], fields[5].rstrip(";")]))
    board = chess.Board()
    board.set_epd(text)
    return board


def positions_of_pgn(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """The line that each game begins in, and its last position."""
    lines = CountedLines(text)
    while True:
        begin = lines.next_with_text()
        game = chess.pgn.read_game(lines, Visitor=_QuietBuilder)
        if game is None:
            return
        if game.errors:
            raise DataError(path, f"line {begin}: {game.errors[0]}")
        yield begin, game.end().board().fen()


class _QuietBuilder(chess.pgn.GameBuilder[chess.pgn.Game]):
    """Keeps errors; the base class logs them as well."""

    def handle_error(self, error: Exception) -> None:
        self.game.errors.append(error)


class CountedLines(io.StringIO):
    """Text that knows how many of its lines have been read."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._texts = text.split("\n")
        self._read = 0

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        self._read += 1
        return super().readline(size)

    def next_with_text(self) -> int:
        """Number of the next line that is not empty."""
        rest = range(self._read, len(self._texts))
        return next((number for number in rest if self._texts[number].strip()), self._read) + 1


def why_no_opening(board: chess.Board, max_ply: int) -> str:
    """Why no game can begin there, or an empty text."""
    if not board.is_valid():
        faults = [flag.name for flag in chess.Status if flag & board.status() and flag.name]
        return f"no legal position: {', '.join(faults).lower().replace('_', ' ')}"
    if not any(board.generate_legal_moves()) or board.halfmove_clock >= 100 or board.is_insufficient_material():
        return "the game is over there"
    return f"ply {board.ply()} is not below --max-ply {max_ply}" if board.ply() >= max_ply else ""
