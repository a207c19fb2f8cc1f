"""Opening books: the positions with which games begin, read from files of EPD, FEN or PGN."""

from __future__ import annotations

import hashlib
import io
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import chess
import chess.pgn

from loader import _native
from loader.errors import DataError
from loader.files.text import decode_text
from loader.files.user_file import read_user_file


@dataclass(frozen=True)
class Book:
    """An opening book: at least one position, in each of which the side to move has moves to make."""

    path: Path
    digest: str  # SHA-256 of the file
    positions: tuple[str, ...]  # FEN or EPD
    lines: tuple[int, ...]  # line of the file in which each position stands
    empty: int = 0  # number of games without moves, which are left out

    def order(self, seed: str) -> list[int]:
        """Returns the numbers of all positions in the random order in which games use them."""
        numbers = list(range(len(self.positions)))
        random.Random(f"{seed}/book").shuffle(numbers)
        return numbers

    def board(self, number: int, *, chess960: bool = False) -> chess.Board:
        """Returns position `number` as a board. Raises ValueError for a text that is no position."""
        board = parse_position(self.positions[number])
        board.chess960 = chess960
        return board

    def check(self, max_ply: int, *, chess960: bool = False) -> None:
        """Checks that a game can begin at every position. Raises DataError, with the line of the book, if a position is
        invalid, if its game is over, or if it is at ply `max_ply` or later."""
        for number, line in enumerate(self.lines):
            try:
                fault = find_opening_problem(self.board(number, chess960=chess960), max_ply)
            except ValueError as error:
                fault = str(error)
            if fault:
                raise DataError(self.path, f"line {line}: {fault}")


def read_book(path: Path) -> Book:
    """Reads an opening book. A file is PGN if its name ends in .pgn or its first character is [, and else has one
    position a line. A game of PGN gives its last position.

    Raises DataError with the line of a text or game that can't be read. Positions themselves are not checked.
    """
    try:
        content = read_user_file(path)
        text = decode_text(content, latin=True)
    except OSError as error:
        raise DataError(path, error.strerror or str(error)) from None
    except ValueError as error:
        raise DataError(path, str(error)) from None
    pgn = path.suffix.lower() == ".pgn" or text.lstrip().startswith("[")
    everything = list(read_pgn_positions(path, text) if pgn else read_epd_positions(text))
    starts = [(line, position) for line, position in everything if position is not None]
    if not starts:
        raise DataError(path, "holds no positions")
    lines, positions = zip(*starts, strict=True)
    return Book(path, hashlib.sha256(content).hexdigest(), positions, lines, len(everything) - len(starts))


def read_epd_positions(text: str) -> Iterator[tuple[int, str]]:
    """Yields number and text of each line, without empty lines and those that begin with #."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.strip()


def parse_position(text: str) -> chess.Board:
    """Parses a FEN with its two counters, or an EPD with operations, to a board. Raises ValueError."""
    fields = text.split()
    if len(fields) >= 6 and fields[4].isdecimal() and fields[5].rstrip(";").isdecimal():
        return chess.Board(" ".join([*fields[:5], fields[5].rstrip(";")]))
    board = chess.Board()
    board.set_epd(text)
    return board


def read_pgn_positions(path: Path, text: str) -> Iterator[tuple[int, str | None]]:
    """Yields for each game of a PGN text the line in which it begins, and its last position as a FEN. The position is
    None for a game without moves that starts at the usual position. Raises DataError."""
    for begin, lines in split_pgn_games(path, text):
        game = chess.pgn.read_game(io.StringIO(_with_known_variant(path, begin, lines)), Visitor=_QuietBuilder)
        if game is None:
            continue
        if game.errors:
            raise DataError(path, f"line {begin}: {game.errors[0]}")
        board = game.end().board()
        yield begin, board.fen() if board.move_stack or "FEN" in game.headers else None


def _with_known_variant(path: Path, begin: int, lines: str) -> str:
    """Returns the text of a game with the name of its variant changed to one that python-chess knows, Standard or
    Chess960. Raises DataError for any other variant."""
    found = _VARIANT.search(lines)
    if found is None:
        return lines
    is_chess960 = _native.is_chess960(found[1])
    if is_chess960 is None:
        raise DataError(path, f"line {begin}: a game of {found[1]}, which is other chess")
    return f"{lines[: found.start(1)]}{'Chess960' if is_chess960 else 'Standard'}{lines[found.end(1) :]}"


def split_pgn_games(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Splits a PGN text into games. Yields for each game the line in which it begins, and its text as python-chess
    expects it, with one empty line, between tags and moves.

    In PGN itself empty lines have no meaning. A game ends before a tag, after its result, and before a move number 1
    that follows an empty line. Lines that begin with % or ; are ignored. Raises DataError for a comment without an end.
    """
    begin, tags, moves = 0, list[str](), list[str]()
    in_comment, blank, ended = 0, False, False  # in_comment: the line in which the open comment begins; 0: none
    text = text.rstrip("\x1a")  # the end of DOS's files
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        word = line.strip()
        if in_comment:
            played, is_open = _outside_comments(line, inside=True)
            moves.append(line)
        elif not word or word.startswith(("%", ";")):
            blank = blank or not word
            continue
        else:
            tag = word.startswith("[")
            played, is_open = ("", False) if tag else _outside_comments(line, inside=False)
            first = bool(played) and (ended or (blank and bool(_FIRST_MOVE.match(played))))
            if moves and (tag or first):
                yield begin, "\n".join([*tags, "", *moves])
                tags, moves, ended = [], [], False
            begin = begin if tags or moves else number
            (tags if tag else moves).append(word)
        in_comment = (in_comment or number) if is_open else 0
        ended = played.endswith(_RESULTS) if played else ended
        blank = False
    if in_comment:
        raise DataError(path, f"line {in_comment}: a comment has no end")
    if tags or moves:
        yield begin, "\n".join([*tags, "", *moves])


_VARIANT = re.compile(r'^\[Variant\s+"(.*)"\s*\]\s*$', re.MULTILINE)
_RESULTS = ("1-0", "0-1", "1/2-1/2", "*")
_FIRST_MOVE = re.compile(r"1\s*\.(?!\s*\.)")


def _outside_comments(line: str, *, inside: bool) -> tuple[str, bool]:
    """Returns the part of a line that is outside of comments, and whether a comment is open at the end of the line.
    `inside` says that a comment is open at its beginning."""
    outside = ""
    while line:
        if inside:
            _, end, line = line.partition("}")
            inside = not end
        else:
            at = min((place for mark in "{;" if (place := line.find(mark)) >= 0), default=len(line))
            outside += line[:at]
            inside, line = line[at : at + 1] == "{", "" if line[at : at + 1] == ";" else line[at + 1 :]
    return outside.strip(), inside


class _QuietBuilder(chess.pgn.GameBuilder[chess.pgn.Game]):
    """A builder of games that keeps errors in the game, and does not log them as its base class does."""

    def handle_error(self, error: Exception) -> None:
        self.game.errors.append(error)


def find_opening_problem(board: chess.Board, max_ply: int) -> str:
    """Returns the reason why no game can begin at a position, or an empty text if one can."""
    if not board.is_valid():
        chess960 = board.copy(stack=False)
        chess960.chess960 = True
        if chess960.is_valid():
            return "a Chess960 position, where no game of chess begins; take it out of the book"
        faults = [flag.name for flag in chess.Status if flag & board.status() and flag.name]
        return f"no legal position: {', '.join(faults).lower().replace('_', ' ')}"
    if not any(board.generate_legal_moves()) or board.halfmove_clock >= 100 or board.is_insufficient_material():
        return "the game is over there"
    return f"ply {board.ply()} is not below --max-ply {max_ply}" if board.ply() >= max_ply else ""
