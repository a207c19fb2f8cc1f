"""Settings for the meaning of scores in comments of PGN. The module imports nothing heavy, because commands make their
options of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PgnComments:
    """Settings for scores in comments of PGN. None: only scores whose meaning is clear are read."""

    view: str | None = None  # the side for which a positive score is good: mover, white
    unit: str | None = None  # the unit of whole numbers: pawns, centipawns


NO_SETTINGS = PgnComments()
