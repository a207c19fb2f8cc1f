"""Settings of what scores in comments of PGN mean. Imports nothing: options of commands are made of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PgnComments:
    """Settings for scores in comments of PGN. None: a score is read only where it has one meaning."""

    view: str | None = None  # whose scores they are: mover, white
    unit: str | None = None  # what whole numbers are: pawns, centipawns


NO_SETTINGS = PgnComments()
