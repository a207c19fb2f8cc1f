"""Provides positions to evaluate networks on: from a command line, from a list of FENs or EPDs, or sampled from
training data. Free of torch."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from loader._native import extract_fen
from loader.errors import DataError
from loader.files.identity import identify
from loader.files.paths import find_files
from loader.files.text import decode_text
from loader.files.user_file import read_user_file
from loader.stream.data import Data
from loader.stream.schema import SparseBatch
from loader.stream.sequential import read_in_file_order
from loader.stream.sources import data_config
from pool.errors import ConfigError

# Opcode and operands of an EPD line's operation; a semicolon ends it, but not in quotes.
_OPERATION = re.compile(r'([^\s;"]+)((?:"[^"]*"|[^;"])*)(?:;|$)')
_MAX_POSITIONS = 8192
_STRIDE = 4  # every fourth position is used, as neighbours in a file are of one game
_BATCH = 1024
_LIST_SUFFIXES = (".epd", ".fen", ".txt")
_FIELD = "features"
_START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"


@dataclass(frozen=True)
class Position:
    """The inputs that a network sees of one chess position."""

    own: npt.NDArray[Any]  # active features from the side to move's point of view
    opponent: npt.NDArray[Any]
    piece_count: int  # kings included


class Bags(NamedTuple):
    """The active features of n positions from one point of view. Those of position i are features[offsets[i] :
    offsets[i + 1]]."""

    features: npt.NDArray[np.uint32]  # [active]
    offsets: npt.NDArray[np.uint32]  # [n + 1]


@dataclass(frozen=True)
class PositionBatch:
    """The inputs that a network sees of n chess positions."""

    own: Bags
    opponent: Bags
    piece_count: npt.NDArray[np.int64]  # [n]

    @classmethod
    def from_positions(cls, positions: Sequence[Position]) -> PositionBatch:
        """Joins the inputs of single positions."""
        own, opponent = ([getattr(position, side) for position in positions] for side in ("own", "opponent"))
        return cls(
            _concatenate_bags(own),
            _concatenate_bags(opponent),
            np.array([position.piece_count for position in positions], np.int64),
        )

    @classmethod
    def from_batch(cls, batch: SparseBatch, samples: int) -> PositionBatch:
        """Copies the inputs of a batch's samples, in their order. The batch's memory may be used again afterwards."""
        view = batch.sparse[_FIELD]
        middle = int(view.offsets[samples])
        features = view.features.astype(np.uint32)
        own = Bags(features[:middle], view.offsets[: samples + 1].copy())
        opponent = Bags(features[middle:], view.offsets[samples : 2 * samples + 1] - view.offsets[samples])
        return cls(own, opponent, batch.dense["piece_count"][:samples].astype(np.int64))


@dataclass(frozen=True)
class NamedPosition:
    """A position with the FEN that it was given as, and the `id` of its EPD line ('' if it has none)."""

    fen: str
    id: str
    position: Position


class Inputs(NamedTuple):
    """The feature set of a network and its king buckets, as the keys of data.chess name them."""

    features: str
    king_buckets: tuple[int, ...] = ()


def read_fen(fen: str, inputs: Inputs) -> Position:
    """Extracts what a network with these inputs sees of a position. Raises ValueError if `fen` is no position."""
    own, opponent, piece_count, _ = extract_fen(fen, *inputs)
    return Position(own, opponent, piece_count)


def read_fen_options(fens: Sequence[str], inputs: Inputs) -> Iterator[NamedPosition]:
    """Yields the positions of the option `--fen`. `startpos` stands for the first position of a game, as in UCI. Raises
    ConfigError for a FEN that is no position."""
    for text in fens:
        fen = _START if text == "startpos" else " ".join(text.encode("utf-8", "replace").decode().split())
        try:
            yield NamedPosition(fen, "", read_fen(fen, inputs))
        except ValueError as error:
            raise ConfigError(f"--fen: {error}") from None


def read_listed_positions(path: Path, inputs: Inputs) -> Iterator[NamedPosition]:
    """Yields the positions of a file with one FEN or EPD on each line. Raises DataError."""
    try:
        text = decode_text(read_user_file(path), latin=True)
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
            yield NamedPosition(fen, _parse_id(line.split(maxsplit=length)[length:]), read_fen(fen, inputs))
        except ValueError as error:
            raise DataError(path, f"line {number}: {error}") from None


def _fen_length(words: Sequence[str]) -> int:
    """Returns the number of fields at the start of a line that make up the position: 6 for a FEN, 4 for an EPD."""
    counters = words[4:6]
    return 6 if len(counters) == 2 and all(word.isdecimal() for word in counters) else 4


def _parse_id(operations: Sequence[str]) -> str:
    """Returns the operand of the EPD operation `id`, or ''. Characters that are not printable, such as a terminal's
    control codes, become '?'."""
    for match in _OPERATION.finditer(operations[0] if operations else ""):
        if match[1] == "id":
            text = match[2].strip().removeprefix('"').removesuffix('"')
            return "".join(letter if letter.isprintable() else "?" for letter in text)
    return ""


def read_positions(
    patterns: Sequence[str], inputs: Inputs, option: str, max_positions: int = _MAX_POSITIONS
) -> list[Position]:
    """Returns up to `max_positions` positions from the files that match the patterns: all of a file with a FEN or EPD
    on each line, and every fourth of the first ones of data files. Raises DataError, and ConfigError that names
    `option` if there are none."""
    try:
        files = find_files(patterns, option)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    lists = [file for file in files if file.suffix in _LIST_SUFFIXES]
    data = [file for file in files if file.suffix not in _LIST_SUFFIXES]
    listed = (named.position for file in lists for named in read_listed_positions(file, inputs))
    positions = list(
        itertools.islice(itertools.chain(listed, _read_data_positions(data, inputs, option)), max_positions)
    )
    if not positions:
        raise ConfigError(f"{option}: no position in {', '.join(patterns)}")
    return positions


def _read_data_positions(files: Sequence[Path], inputs: Inputs, option: str) -> Iterator[Position]:
    """Yields every fourth position of each batch of the data files, in their order, as neighbours in a file are often
    of one game."""
    if not files:
        return
    chess = {"features": inputs.features, "king_buckets": list(inputs.king_buckets), "output_buckets": "single"}
    config = data_config(batch_size=_BATCH, chess=chess)
    try:
        for batch, order in read_in_file_order(Data(config, identify(files))):
            yield from itertools.islice(unpack_positions(batch, len(order)), 0, None, _STRIDE)
    except OSError as error:
        raise ConfigError(f"{option}: {error.filename}: {error.strerror}") from None


def _concatenate_bags(bags: Sequence[npt.NDArray[Any]]) -> Bags:
    offsets = np.cumsum([0, *map(len, bags)]).astype(np.uint32)
    return Bags(np.concatenate([np.empty(0, np.uint32), *bags]).astype(np.uint32), offsets)


def unpack_positions(batch: SparseBatch, samples: int) -> Iterator[Position]:
    """Yields the inputs that networks see of the first `samples` samples, in the order of the batch."""
    view = batch.sparse[_FIELD]
    borders = view.offsets.tolist()
    features = view.features.astype("int64")
    bags = [features[start:end] for start, end in itertools.pairwise(borders)]
    pieces = batch.dense["piece_count"].tolist()
    for number in range(samples):
        yield Position(bags[number], bags[samples + number], pieces[number])
