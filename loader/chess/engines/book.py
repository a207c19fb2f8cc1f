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
        """Returns the indices of all positions in the random order in which games use them."""
        indices = list(range(len(self.positions)))
        random.Random(f"{seed}/book").shuffle(indices)
        return indices

    def board(self, index: int, *, chess960: bool = False) -> chess.Board:
        """Returns a position as a board. Raises ValueError for a text that is no position."""
        board = parse_position(self.positions[index])
        board.chess960 = chess960
        return board

    def check(self, max_ply: int, *, chess960: bool = False) -> None:
        """Checks that a game can begin at every position. Raises DataError, with the line of the book, if a position is
        invalid, if its game is over, or if it is at ply `max_ply` or later."""
        for index, line in enumerate(self.lines):
            try:
                problem = find_opening_problem(self.board(index, chess960=chess960), max_ply)
            except ValueError as error:
                problem = str(error)
            if problem:
                raise DataError(self.path, f"line {line}: {problem}")


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
    is_pgn = path.suffix.lower() == ".pgn" or text.lstrip().startswith("[")
    numbered = list(read_pgn_positions(path, text) if is_pgn else read_epd_positions(text))
    openings = [(line, position) for line, position in numbered if position is not None]
    if not openings:
        raise DataError(path, "holds no positions")
    lines, positions = zip(*openings, strict=True)
    return Book(path, hashlib.sha256(content).hexdigest(), positions, lines, len(numbered) - len(openings))


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
    for first_line, text_of_game in split_pgn_games(path, text):
        pgn = _normalize_variant(path, first_line, text_of_game)
        game = chess.pgn.read_game(io.StringIO(pgn), Visitor=_QuietBuilder)
        if game is None:
            continue
        if game.errors:
            raise DataError(path, f"line {first_line}: {game.errors[0]}")
        board = game.end().board()
        has_position = bool(board.move_stack) or "FEN" in game.headers
        yield first_line, board.fen() if has_position else None


def _normalize_variant(path: Path, first_line: int, pgn: str) -> str:
    """Returns the text of a game with the name of its variant changed to one that python-chess accepts, Standard or
    Chess960. Raises DataError for any other variant."""
    tag = _VARIANT.search(pgn)
    if tag is None:
        return pgn
    is_chess960 = _native.is_chess960(tag[1])
    if is_chess960 is None:
        raise DataError(path, f"line {first_line}: a game of {tag[1]}, which is other chess")
    variant = "Chess960" if is_chess960 else "Standard"
    return f"{pgn[: tag.start(1)]}{variant}{pgn[tag.end(1) :]}"


def split_pgn_games(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Splits a PGN text into games. Yields for each game the line in which it begins, and its text as python-chess
    expects it, with one empty line, between tags and moves.

    In PGN itself empty lines have no meaning. A game ends before a tag, after its result, and before a move number 1
    that follows an empty line. Lines that begin with % or ; are ignored. Raises DataError for a comment without an end.
    """
    first_line, tags, moves = 0, list[str](), list[str]()
    comment_line = 0  # line in which the open comment begins; 0: none is open
    follows_blank_line = has_result = False
    text = text.rstrip("\x1a")  # the end of DOS's files
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        stripped = line.strip()
        if comment_line:
            move_text, is_open = _strip_comments(line, in_comment=True)
            moves.append(line)
        elif not stripped:
            follows_blank_line = True
            continue
        elif stripped.startswith(("%", ";")):
            continue
        else:
            is_tag = stripped.startswith("[")
            move_text, is_open = ("", False) if is_tag else _strip_comments(line, in_comment=False)
            is_first_move = follows_blank_line and _FIRST_MOVE.match(move_text) is not None
            begins_moves = move_text != "" and (has_result or is_first_move)
            if moves and (is_tag or begins_moves):
                yield first_line, "\n".join([*tags, "", *moves])
                tags, moves, has_result = [], [], False
            if not tags and not moves:
                first_line = number
            if is_tag:
                tags.append(stripped)
            else:
                moves.append(stripped)
        if not is_open:
            comment_line = 0
        elif not comment_line:
            comment_line = number
        if move_text:
            has_result = move_text.endswith(_RESULTS)
        follows_blank_line = False
    if comment_line:
        raise DataError(path, f"line {comment_line}: a comment has no end")
    if tags or moves:
        yield first_line, "\n".join([*tags, "", *moves])


_VARIANT = re.compile(r'^\[Variant\s+"(.*)"\s*\]\s*$', re.MULTILINE)
_RESULTS = ("1-0", "0-1", "1/2-1/2", "*")
_FIRST_MOVE = re.compile(r"1\s*\.(?!\s*\.)")
_COMMENT_START = re.compile(r"([^{;]*)([{;]?)(.*)", re.DOTALL)  # text, the mark of a comment, the remaining line


def _strip_comments(line: str, *, in_comment: bool) -> tuple[str, bool]:
    """Removes the comments of a line: {...}, and ; up to its end. Returns the other text, and whether a comment is open
    at the end of the line. `in_comment` says that one is open at its beginning."""
    text = ""
    while line:
        if in_comment:
            _, brace, line = line.partition("}")
            in_comment = not brace
            continue
        before, mark, line = _COMMENT_START.match(line).groups()  # type: ignore[union-attr] # matches any line
        text += before
        if mark == ";":
            break
        in_comment = mark == "{"
    return text.strip(), in_comment


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
        problems = [flag.name for flag in chess.Status if flag & board.status() and flag.name]
        return f"no legal position: {', '.join(problems).lower().replace('_', ' ')}"
    if not any(board.generate_legal_moves()) or board.halfmove_clock >= 100 or board.is_insufficient_material():
        return "the game is over there"
    if board.ply() >= max_ply:
        return f"ply {board.ply()} is not below --max-ply {max_ply}"
    return ""
