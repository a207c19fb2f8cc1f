"""Files of positions in every format, made of the project's own sample; and what a file of any format holds."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from loader import _native
from loader.chess.positions.entry import Entry, parse_entry
from loader.chess.positions.inputs import entries
from tests.support.paths import DATA, VALIDATION

VECTORS = DATA / "vectors"
SUFFIXES = {
    "bulletformat": ".bf",
    "marlinformat": ".marlin",
    "montyvalue": ".montyvalue",
    "packedsfen": ".psv",
    "pgn": ".pgn",
    "plain": ".plain",
    "text": ".txt",
    "viriformat": ".viri",
}
FORMATS = tuple(SUFFIXES)  # those with a codec; binpack is the other one
GAMES = ("viriformat", "montyvalue", "pgn")
HEADERS = {"viriformat": 32, "montyvalue": 43}
RECORDS = {"bulletformat": 32, "marlinformat": 32, "packedsfen": 40}


def codec(name: str) -> _native.Codec:
    made: _native.Codec = getattr(_native, name)()
    return made


@cache
def sample(count: int) -> tuple[Entry, ...]:
    """Returns the sample's first positions."""
    return tuple(itertools.islice(entries(VALIDATION), count))


def make_writer(name: str) -> Any:
    return codec(name).make_writer()


def encode(name: str, positions: Iterable[Entry]) -> bytes:
    """Returns the bytes of a file of that format."""
    writer = make_writer(name)
    for entry in positions:
        writer.add(entry.fen, entry.move, entry.score, entry.ply, entry.result)
    writer.finish()
    data: bytes = writer.take()
    return data


def write_samples(folder: Path, count: int, names: Iterable[str] = FORMATS) -> dict[str, Path]:
    """Writes the sample's first positions in each of the formats."""
    paths = {name: folder / f"sample{SUFFIXES.get(name, '.binpack')}" for name in names}
    for name, path in paths.items():
        path.write_bytes(encode(name, sample(count)))
    return paths


def open_path(name: str, path: Path) -> _native.EntryFile:
    return _native.open_entries(codec(name), path)


def read_file(name: str, path: Path) -> list[Entry]:
    """Reads the positions of a good file."""
    file, lines = open_path(name, path), []
    for chunk in range(file.num_chunks):
        walk = _native.ChunkWalk(file, chunk)
        lines += walk.lines(1 << 30).decode().splitlines()
        assert walk.fault is None
    return [parse_entry(line) for line in lines]


def read_positions(path: Path) -> list[Entry]:
    """Reads the positions of a good file, whose ending says its format."""
    return read_file(next((name for name, suffix in SUFFIXES.items() if path.name.endswith(suffix)), "binpack"), path)


def rewritten(name: str, path: Path, into: str) -> bytes:
    """Converts a file without Python in between."""
    file, writer = open_path(name, path), codec(into).make_writer()
    for chunk in range(file.num_chunks):
        fault = _native.ChunkWalk(file, chunk).copy_to(writer)
        assert fault is None, fault
    writer.finish()
    return writer.take()
