"""Positions named on a command line or in an EPD file. Never imports torch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt

from loader._native import extract_fen
from loader.errors import DataError
from loader.files.named import read_named
from loader.files.text import text_of
from pool.errors import ConfigError

# Opcode and operands of an EPD line's operation; a semicolon ends it, but not in quotes.
_OPERATION = re.compile(r'([^\s;"]+)((?:"[^"]*"|[^;"])*)(?:;|$)')
_START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"


@dataclass(frozen=True)
class Position:
    """What a network sees of a position."""

    own: npt.NDArray[Any]  # active features from the side to move's point of view
    opponent: npt.NDArray[Any]
    piece_count: int  # kings included


@dataclass(frozen=True)
class NamedPosition:
    """A position, the FEN it was given as, and the `id` of its EPD line ('' if it has none)."""

    fen: str
    id: str
    position: Position


class Inputs(NamedTuple):
    """Of a network, as in data.chess."""

    features: str
    king_buckets: tuple[int, ...] = ()


def read_fen(fen: str, inputs: Inputs) -> Position:
    """What a network with these inputs sees of a position. Raises ValueError if it is none."""
    own, opponent, piece_count, _ = extract_fen(fen, *inputs)
    return Position(own, opponent, piece_count)


def given_positions(fens: Sequence[str], inputs: Inputs) -> Iterator[NamedPosition]:
    """Those of `--fen`; `startpos` is a word for the first of a game, as in UCI. Raises ConfigError."""
    for text in fens:
        fen = _START if text == "startpos" else " ".join(text.encode("utf-8", "replace").decode().split())
        try:
            yield NamedPosition(fen, "", read_fen(fen, inputs))
        except ValueError as error:
            raise ConfigError(f"--fen: {error}") from None


def listed_positions(path: Path, inputs: Inputs) -> Iterator[NamedPosition]:
    """Those of a file with a FEN or an EPD a line. Raises DataError."""
    try:
        text = text_of(read_named(path), latin=True)
    except OSError as error:
        raise DataError(path, f"can't be read: {error.strerror}") from None
    except ValueError as error:
        raise DataError(path, str(error)) from None
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split()
        if not words:
            continue
        length = _fen_length(words)
        fen = " ".join(words[:length])
        try:
            yield NamedPosition(fen, _id_of(line.split(maxsplit=length)[length:]), read_fen(fen, inputs))
        except ValueError as error:
            raise DataError(path, f"line {number}: {error}") from None


def _fen_length(words: Sequence[str]) -> int:
    """The four fields of an EPD line, or the six of a FEN."""
    counters = words[4:6]
    return 6 if len(counters) == 2 and all(word.isdecimal() for word in counters) else 4


def _id_of(operations: Sequence[str]) -> str:
    """The operand of `id`, on one line and without what a terminal would obey."""
    for match in _OPERATION.finditer(operations[0] if operations else ""):
        if match[1] == "id":
            text = match[2].strip().removeprefix('"').removesuffix('"')
            return "".join(letter if letter.isprintable() else "?" for letter in text)
    return ""
