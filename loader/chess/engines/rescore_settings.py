"""Settings of `loader rescore`, and which of them must be the same when it goes on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from loader.chess.engines.engine import EngineSettings, Limits
from loader.chess.positions.format import Target
from loader.files.identity import DataFile
from loader.files.journal import Settings
from loader.files.part import read_part

VERSION = 3  # another one if the same settings make other scores
_PER_TASK = 100_000  # nodes that a task has, about
_MOST = 64  # positions of a task
_AT_ONCE = 1 << 24  # bytes of a file


@dataclass(frozen=True)
class RescoreSettings:
    """Settings of a rescoring."""

    engine: EngineSettings
    limits: Limits
    engines: int = 1
    drop_unscored: bool = False

    @property
    def positions_of_a_task(self) -> int:
        """The number of positions that an engine gets at once, and that its death may cost. Changes no score."""
        return max(1, min(_MOST, _PER_TASK // (self.limits.nodes or _PER_TASK // 16)))

    def identity(self, target: Target) -> Settings:
        """All that a position's score depends on, by option. Not --threads."""
        return {
            "scores of version": VERSION,
            "format": f"{target.format.name} {target.packing or ''}".strip(),
            **self.engine.identity(),
            "--nodes": self.limits.nodes,
            "--depth": self.limits.depth,
        }


def digest_of_all(files: Sequence[DataFile]) -> str:
    """Returns a digest of the content of files. Raises DataChangedError, OSError."""
    whole = hashlib.sha256()
    for file in files:
        one = hashlib.sha256()
        for begin in range(0, file.size, _AT_ONCE):
            one.update(read_part(file, begin, min(begin + _AT_ONCE, file.size), may_grow=False))
        whole.update(one.digest())
    return whole.hexdigest()
