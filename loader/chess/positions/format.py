"""Formats of position files: what each can hold, and which one a file is in or is to be written in."""

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
from loader.files.compression import READ_ENDINGS
from loader.formats.registry import find_format, format_by_name, format_of_head, names_of_family

FAMILY = "chess"
BINPACK = "binpack"
SETTING = "--format (in Python: format)"
PACKINGS = {".gz": "gzip", ".zst": "zstd"}


def with_packed(*suffixes: str) -> tuple[str, ...]:
    """Returns the endings, and those of compressed files."""
    return tuple(f"{suffix}{packed}" for suffix in suffixes for packed in READ_ENDINGS)


@dataclass(frozen=True)
class PositionFormat:
    """A format that comes with the loader: the FORMAT of its package in loader/chess/formats."""

    name: str  # also of the function of `_native` that gives its codec
    lacks: tuple[str, ...] = ()  # what its records do not have, of `loader.chess.filters.PARTS`
    # The bytes that a chunk begins with, by those of its units; None: nothing is between the units of a file.
    chunk_header: Callable[[int], bytes] | None = None
    is_written: bool = True  # False: its files are only read
    comments: PgnComments | None = None  # of PGN

    @property
    def codec(self) -> _native.Codec:
        """The native part that reads and writes its records."""
        settings = () if self.comments is None else (self.comments.view, self.comments.unit)
        codec: _native.Codec = getattr(_native, self.name)(*settings)
        return codec

    @property
    def units(self) -> str:
        """The plural noun of the units: records, games or chains, which can be moved alone."""
        return f"{self.codec.unit}s"

    @property
    def keeps_games(self) -> bool:
        """True if a unit is what is left of a game, not a single position."""
        return self.codec.keeps_games

    @property
    def in_centipawns(self) -> bool:
        """True if scores are centipawns, False if they are Stockfish's internal units."""
        return self.score_unit == "centipawns"

    @property
    def score_unit(self) -> str:
        """The unit that scores usually have."""
        unit: str = getattr(format_by_name(self.name), "SCORE_UNIT")  # noqa: B009 (no part of every format)
        return unit

    def view_of(self, label: str) -> View | None:
        """Returns the view that a label (score or result) has in files of this format; None: each has its own."""
        view: View | None = getattr(format_by_name(self.name), f"{label.upper()}_VIEW")
        return view

    def make_writer(self) -> _native.EntryWriter:
        return self.codec.make_writer()

    def with_comments(self, comments: PgnComments) -> PositionFormat:
        """Returns the format that reads comments so; any other than PGN as it is."""
        return self if self.comments is None else replace(self, comments=comments)

    def recognizes(self, head: bytes) -> bool:
        """Tells whether a file that begins so is one; as `loader.formats.format.Format`."""
        return self.codec.begins_a_file(head)


@dataclass(frozen=True)
class Target:
    """The format and packing of a file to be written."""

    format: PositionFormat
    packing: str | None = None  # one of PACKINGS


def named_format(name: str) -> PositionFormat:
    """Finds a format by its name. Raises UsageError."""
    names = names_of_family(FAMILY)
    if name not in names:
        raise UsageError(f"{name!r} is none of the formats {', '.join(names)}")
    return cast(PositionFormat, getattr(format_by_name(name), "FORMAT"))  # noqa: B009 (no part of every format)


def written_format(name: str) -> PositionFormat:
    """Finds a format by its name, for an output. Raises UsageError."""
    format = named_format(name)
    if not format.is_written:
        raise UsageError(f"{name} is read, and not written: write {', '.join(written_formats())}")
    return format


def input_format(path: Path, option: str | None = None) -> PositionFormat:
    """Finds the format of a file as `find_format`; `option`: its name, if it is given. Raises UsageError, DataError."""
    named = None if option is None else named_format(option)
    found = find_format(path, setting=SETTING, name=option, family=FAMILY)
    return named or named_format(found)


def piped_format(head: bytes, path: Path, option: str | None = None) -> PositionFormat:
    """Finds the format of what comes out of a pipe and begins so; `option` as for `input_format`. Raises UsageError."""
    if option is not None:
        return named_format(option)
    name = format_of_head(head, path, "--format", FAMILY)
    if name is None:
        names = ", ".join(names_of_family(FAMILY))
        raise UsageError(f"{path}: does not begin as any of the formats {names}; --format says which it is")
    return named_format(name)


def target_of(path: Path, option: str | None = None) -> Target:
    """Decides what a file to be written is; `option`: the format's name, if the ending does not say it. Raises
    UsageError."""
    packing = PACKINGS.get(path.suffix)
    if packing is None and path.suffix in READ_ENDINGS[1:]:
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
    """The formats that a file's ending names."""
    return [name for name in names_of_family(FAMILY) if path.name.endswith(tuple(format_by_name(name).SUFFIXES))]


def lost(source: PositionFormat, target: PositionFormat) -> Sequence[str]:
    """Returns the parts of a position that the source has and the target has no room for.

    Chess960 is none: a position that a format can't hold is refused when it comes.
    """
    return [part for part in PARTS if part != CHESS960 and part in target.lacks and part not in source.lacks]


def made_up(source: PositionFormat, target: PositionFormat) -> Sequence[str]:
    """Returns the parts that the target has and the source lacks: they get what a FEN of only a board would give."""
    return [part for part in PARTS if part != CHESS960 and part in source.lacks and part not in target.lacks]


def refuse_without_moves(path: Path, source: PositionFormat, target: PositionFormat) -> None:
    """Raises UsageError if the target can't be written without moves, and the source has none."""
    if target.codec.has_games and MOVE in source.lacks:
        raise UsageError(f"{path}: {source.name} has no moves, and {target.name} can't be written without")


def refuse_unused(comments: PgnComments, formats: Sequence[object]) -> None:
    """Raises UsageError for settings of comments where no file is PGN."""
    has_comments = any(isinstance(format, PositionFormat) and format.comments is not None for format in formats)
    if comments != NO_SETTINGS and not has_comments:
        raise UsageError("--pgn-view and --pgn-unit are for PGN, which none of the files is")


def refuse_games(target: PositionFormat) -> None:
    """Raises UsageError if no position of a file of that format can be left out."""
    if not target.codec.has_games:
        return
    able = ", ".join(name for name in written_formats() if not named_format(name).codec.has_games)
    raise UsageError(
        f"{target.name} holds whole games, of which no position can be left out: write {able} (-o with another ending)"
    )


def written_formats() -> Sequence[str]:
    return [name for name in names_of_family(FAMILY) if named_format(name).is_written]


def _endings() -> str:
    return ", ".join(f"{name} ({format_by_name(name).SUFFIXES[0]})" for name in written_formats())
