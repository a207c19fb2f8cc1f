"""Formats of files of positions: what each can store, and how the format of an input or output is determined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from loader import _native
from loader.chess.filters import CHESS960, MOVE, PARTS
from loader.chess.positions.entry import View
from loader.chess.positions.pgn_comments import NO_SETTINGS, PgnComments
from loader.errors import UsageError
from loader.files.compression import READABLE_ENDINGS
from loader.formats.registry import detect_format, formats_of_family, load_format, resolve_format

FAMILY = "chess"
BINPACK = "binpack"
SETTING = "--format (in Python: format)"
PACKINGS = {".gz": "gzip", ".zst": "zstd"}


def with_compressed(*suffixes: str) -> tuple[str, ...]:
    """Returns the file endings, each plain and followed by the endings of compressed files (`.gz`, `.zst`, `.bz2`)."""
    return tuple(f"{suffix}{packed}" for suffix in suffixes for packed in READABLE_ENDINGS)


@dataclass(frozen=True)
class PositionFormat:
    """A built-in file format of positions: its name, what its records lack, and its native codec. The package of each
    format in loader/chess/formats has one, FORMAT."""

    name: str  # also the name of the function in `_native` that makes its codec
    lacks: tuple[str, ...] = ()  # parts of an entry that its records do not store, of `loader.chess.filters.PARTS`
    # Makes a chunk's header from the size of its units in bytes; None: the file has units alone, without headers.
    chunk_header: Callable[[int], bytes] | None = None
    is_written: bool = True  # False: its files are only read
    comments: PgnComments | None = None  # how PGN's comments are read; None: another format

    @property
    def codec(self) -> _native.Codec:
        """Returns the native codec, which reads and writes records of the format."""
        settings = () if self.comments is None else (self.comments.view, self.comments.unit)
        codec: _native.Codec = getattr(_native, self.name)(*settings)
        return codec

    @property
    def units(self) -> str:
        """Returns the plural noun for units, the parts of a file that tools move as a whole: "records", "lines",
        "games" or "chains"."""
        return f"{self.codec.unit}s"

    @property
    def keeps_games(self) -> bool:
        """Returns True if a unit holds positions of one game in order, False if each unit is a single position."""
        return self.codec.keeps_games

    @property
    def in_centipawns(self) -> bool:
        """Returns True if scores are centipawns, False if they are Stockfish's internal units."""
        return self.score_unit == "centipawns"

    @property
    def score_unit(self) -> str:
        """Returns the name of the unit that scores of the format usually have."""
        unit: str = getattr(load_format(self.name), "SCORE_UNIT")  # noqa: B009 (no part of every format)
        return unit

    def view_of(self, label: str) -> View | None:
        """Returns whose view a label ("score" or "result") has in files of this format. None: each comment states its
        own."""
        view: View | None = getattr(load_format(self.name), f"{label.upper()}_VIEW")
        return view

    def make_writer(self) -> _native.EntryWriter:
        return self.codec.make_writer()

    def with_comments(self, comments: PgnComments) -> PositionFormat:
        """Returns a copy of the format that reads comments of PGN by these settings. Formats other than PGN are
        returned unchanged."""
        return self if self.comments is None else replace(self, comments=comments)

    def recognizes(self, head: bytes) -> bool:
        """Tells whether a file that begins with the bytes `head` has this format. Implements
        `loader.formats.format.Format`."""
        return self.codec.begins_a_file(head)


@dataclass(frozen=True)
class Target:
    """The format and compression of a file to be written."""

    format: PositionFormat
    packing: str | None = None  # one of PACKINGS


def named_format(name: str) -> PositionFormat:
    """Returns the format with this name. Raises UsageError if there is none."""
    names = formats_of_family(FAMILY)
    if name not in names:
        raise UsageError(f"{name!r} is none of the formats {', '.join(names)}")
    return cast(PositionFormat, getattr(load_format(name), "FORMAT"))  # noqa: B009 (no part of every format)


def written_format(name: str) -> PositionFormat:
    """Returns the format with this name, for an output. Raises UsageError if there is none, or if it can only be
    read."""
    format = named_format(name)
    if not format.is_written:
        raise UsageError(f"{name} is read, and not written: write {', '.join(written_formats())}")
    return format


def input_format(path: Path, option: str | None = None) -> PositionFormat:
    """Determines the format of a file from the option --format, else as `resolve_format` does from the file's name and
    content. Raises UsageError, DataError."""
    named = None if option is None else named_format(option)
    found = resolve_format(path, setting=SETTING, name=option, family=FAMILY)
    return named or named_format(found)


def piped_format(head: bytes, path: Path, option: str | None = None) -> PositionFormat:
    """Determines the format of a pipe from the option --format, else from its first bytes, `head`. Raises
    UsageError."""
    if option is not None:
        return named_format(option)
    name = detect_format(head, path, "--format", FAMILY)
    if name is None:
        names = ", ".join(formats_of_family(FAMILY))
        raise UsageError(f"{path}: does not begin as any of the formats {names}; --format says which it is")
    return named_format(name)


def target_from_name(path: Path, option: str | None = None) -> Target:
    """Determines format and compression of a file to be written from the ending of its name and the option --to.

    Raises UsageError if neither names a format, if they contradict each other, or if the format or compression can't be
    written.
    """
    packing = PACKINGS.get(path.suffix)
    if packing is None and path.suffix in READABLE_ENDINGS[1:]:
        raise UsageError(f"{path}: {path.suffix} is read, and not written: {' or '.join(PACKINGS)} compresses")
    named = _named_by(path)
    if option is None:
        if len(named) != 1:
            raise UsageError(f"{path}: its ending names no format; --to (in Python: format) says which: {_endings()}")
        return Target(written_format(named[0]), packing)
    chosen = written_format(option)
    if named and option not in named:
        raise UsageError(f"{path}: its ending says {named[0]}, and --to says {option}")
    return Target(chosen, packing)


def _named_by(path: Path) -> list[str]:
    """Returns the names of the formats that use the ending of a file's name."""
    return [name for name in formats_of_family(FAMILY) if path.name.endswith(tuple(load_format(name).SUFFIXES))]


def lost_parts(source: PositionFormat, target: PositionFormat) -> Sequence[str]:
    """Returns the parts of a position (move, ply, castling rights, ...) that the source format has and the target
    format can't store.

    Chess960 is not among them, because a Chess960 position that the target can't store raises an error when it is
    written.
    """
    return [part for part in PARTS if part != CHESS960 and part in target.lacks and part not in source.lacks]


def made_up_parts(source: PositionFormat, target: PositionFormat) -> Sequence[str]:
    """Returns the parts of a position that the target format stores and the source format lacks. They are written with
    the value that a FEN with only a board would give."""
    return [part for part in PARTS if part != CHESS960 and part in source.lacks and part not in target.lacks]


def refuse_without_moves(path: Path, source: PositionFormat, target: PositionFormat) -> None:
    """Refuses a target format that stores whole games if the source has no moves, which games need. Raises
    UsageError."""
    if target.codec.has_games and MOVE in source.lacks:
        raise UsageError(f"{path}: {source.name} has no moves, and {target.name} can't be written without")


def refuse_unused_comments(comments: PgnComments, formats: Sequence[object]) -> None:
    """Refuses settings for comments of PGN if none of the formats is PGN. Raises UsageError."""
    has_comments = any(isinstance(format, PositionFormat) and format.comments is not None for format in formats)
    if comments != NO_SETTINGS and not has_comments:
        raise UsageError("--pgn-view and --pgn-unit are for PGN, which none of the files is")


def refuse_games(target: PositionFormat) -> None:
    """Refuses a target format that stores whole games, because single positions can't be left out of them. Raises
    UsageError."""
    if not target.codec.has_games:
        return
    able = ", ".join(name for name in written_formats() if not named_format(name).codec.has_games)
    raise UsageError(
        f"{target.name} holds whole games, of which no position can be left out: write {able} (-o with another ending)"
    )


def written_formats() -> Sequence[str]:
    """Returns the names of the formats that can be written."""
    return [name for name in formats_of_family(FAMILY) if named_format(name).is_written]


def _endings() -> str:
    return ", ".join(f"{name} ({load_format(name).SUFFIXES[0]})" for name in written_formats())
