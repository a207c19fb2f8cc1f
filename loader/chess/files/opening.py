"""Files of positions, opened. The work is done by the native part."""

from __future__ import annotations

from pathlib import Path

from loader import _native
from loader.chess.files.borders import kept_borders
from loader.chess.files.format import PositionFormat
from loader.files.identity import DataFile


def open_file(
    found: PositionFormat, file: DataFile | Path, *, may_grow: bool = False, needs_ply: bool = False
) -> _native.EntryFile:
    """A file that was identified is refused if it is another one now. Raises DataError."""
    path, identity = (file.path, file.identity) if isinstance(file, DataFile) else (file, None)
    if found.lines:
        return _native.open_text(path, identity, may_grow, needs_ply)
    codec = found.codec
    if not codec.has_games or not isinstance(file, DataFile):
        return _native.open_entries(codec, path, identity, may_grow, needs_ply)
    with kept_borders(found.name, file) as kept:
        opened = _native.open_entries(codec, path, identity, may_grow, needs_ply, kept.borders)
        kept.borders = opened.borders
    return opened
