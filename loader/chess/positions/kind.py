"""Formats as tools need them: by the name of a file, with what each can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loader import _native
from loader.chess.filters import CHESS960, MOVE, PARTS
from loader.errors import DataError, UsageError
from loader.formats.registry import (
    format_by_name,
    format_of_file,
    format_of_head,
    names_of_family,
    refused_packing,
    unclaimed,
)

FAMILY = "chess"
BINPACK = "binpack"
PACKINGS = {".gz": "gzip", ".zst": "zstd"}


@dataclass(frozen=True)
class Kind:
    """A format of chess positions that comes with the loader."""

    name: str
    lacks: tuple[str, ...]

    @property
    def is_binpack(self) -> bool:
        return self.name == BINPACK

    @property
    def codec(self) -> _native.Codec:
        """Not of binpack."""
        codec: _native.Codec = getattr(_native, self.name)()
        return codec

    @property
    def units(self) -> str:
        """What can be moved alone, in the plural."""
        return "chains" if self.is_binpack else f"{self.codec.unit}s"

    @property
    def keeps_games(self) -> bool:
        """Whether a unit is what is left of a game, not a position of it."""
        return self.is_binpack or self.codec.has_games

    def make_writer(self) -> _native.EntryWriter:
        return _native.BinpackWriter() if self.is_binpack else self.codec.make_writer()


@dataclass(frozen=True)
class Target:
    """What a file to be written is."""

    kind: Kind
    packing: str | None = None  # one of PACKINGS


def kind_of_name(name: str) -> Kind:
    """Raises UsageError."""
    names = names_of_family(FAMILY)
    if name not in names:
        raise UsageError(f"{name!r} is none of the formats {', '.join(names)}")
    return Kind(name, tuple(getattr(format_by_name(name), "LACKS", (CHESS960,))))


def kind_of_file(path: Path, given: str | None = None) -> Kind:
    """By content, or else by name; an empty file that no format claims is one of binpack.

    `given`: the format's name, which counts more. Raises UsageError, DataError.
    """
    if given is not None:
        kind = kind_of_name(given)
        if reason := refused_packing(path, given):
            raise DataError(path, reason)
        return kind
    try:
        found = format_of_file(path, FAMILY)
    except ValueError as error:
        raise UsageError(f"{error}; --format says which") from None
    if found is None and (reason := unclaimed(path, FAMILY)):
        raise DataError(path, f"{reason}; --format, in Python format, says which it is")
    return kind_of_name(found or BINPACK)


def kind_of_head(head: bytes, path: Path, given: str | None = None) -> Kind:
    """The same of what comes out of a pipe and begins so."""
    if given is not None:
        return kind_of_name(given)
    try:
        found = format_of_head(head, path, FAMILY)
    except ValueError as error:
        raise UsageError(f"{error}; --format says which") from None
    if found is None:
        names = ", ".join(names_of_family(FAMILY))
        raise UsageError(f"{path}: does not begin as any of the formats {names}; --format says which it is")
    return kind_of_name(found)


def target_of(path: Path, given: str | None = None) -> Target:
    """Of a file that is to be written; `given`: the format's name, if the ending does not say it. Raises UsageError."""
    packing = PACKINGS.get(path.suffix)
    named = [name for name in names_of_family(FAMILY) if path.name.endswith(tuple(format_by_name(name).SUFFIXES))]
    if given is None:
        plain = path.with_suffix("") if packing else path
        if not named and packing and plain.suffix == f".{BINPACK}":
            raise UsageError(f"{path}: binpack files are not compressed: leave out {path.suffix}")
        if len(named) != 1:
            raise UsageError(f"{path}: its ending names no format; --to, in Python format, says which: {_endings()}")
        return Target(kind_of_name(named[0]), packing)
    kind = kind_of_name(given)
    if named and given not in named:
        raise UsageError(f"{path}: its ending says {named[0]}, and --to says {given}")
    if packing and kind.is_binpack:
        raise UsageError(f"{path}: binpack files are not compressed: leave out {path.suffix}")
    return Target(kind, packing)


def lost(source: Kind, target: Kind) -> Sequence[str]:
    """Parts of an entry that the source has and the target has no room for.

    Chess960 is none: an entry that a format can't hold is refused when it comes.
    """
    return [part for part in PARTS if part != CHESS960 and part in target.lacks and part not in source.lacks]


def made_up(source: Kind, target: Kind) -> Sequence[str]:
    """Parts that the target has and the source lacks: they get what a FEN of only a board would give."""
    return [part for part in PARTS if part != CHESS960 and part in source.lacks and part not in target.lacks]


def refuse_without_moves(path: Path, source: Kind, target: Kind) -> None:
    """Raises UsageError if the target can't be written without moves, and the source has none."""
    if not target.is_binpack and target.keeps_games and MOVE in source.lacks:
        raise UsageError(f"{path}: {source.name} has no moves, and {target.name} can't be written without")


def _endings() -> str:
    names = names_of_family(FAMILY)
    return ", ".join(f"{name} ({format_by_name(name).SUFFIXES[0]})" for name in names)
