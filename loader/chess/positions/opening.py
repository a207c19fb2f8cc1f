"""Files of positions, opened. The work is done by the native part."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from loader import _native
from loader.chess.positions.format import PositionFormat
from loader.chess.positions.game_index import kept_borders
from loader.files.identity import DataFile


class IllegalRule(NamedTuple):
    """The way to treat positions that no game can have."""

    on_bad_data: str | None  # as data.on_bad_data; None: they are kept
    every: bool  # all are judged; else of a game or chain the first


KEPT, REFUSED, LEFT_OUT = IllegalRule(None, False), IllegalRule("stop", True), IllegalRule("skip", True)


def open_file(
    found: PositionFormat,
    file: DataFile | Path,
    *,
    may_grow: bool = False,
    needs_ply: bool = False,
    illegal: IllegalRule = KEPT,
) -> _native.EntryFile:
    """Opens the file that was identified, or the one that is there now; another one in its place is refused, here and
    whenever it is read. Raises DataError."""
    path, identity = (file.path, file.identity) if isinstance(file, DataFile) else (file, None)
    if found.lines:
        return _native.open_text(path, identity, may_grow, needs_ply, *illegal)
    codec = found.codec
    if not codec.has_games or not isinstance(file, DataFile):
        return _native.open_entries(codec, path, identity, may_grow, needs_ply, None, *illegal)
    with kept_borders(found.name, file) as kept:
        opened = _native.open_entries(codec, path, identity, may_grow, needs_ply, kept.borders, *illegal)
        kept.borders = opened.borders
    return opened
