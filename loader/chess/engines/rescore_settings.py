"""Settings of `loader rescore`, and those that must be the same when an interrupted work is continued."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from loader.chess.engines.engine import EngineSettings, Limits
from loader.chess.positions.format import Target
from loader.files.identity import DataFile
from loader.files.journal import Settings
from loader.files.part import read_part

VERSION = 3  # incremented when a change of the code makes other scores with the same settings
_NODES_PER_TASK = 100_000  # nodes that are searched for a task, about
_MAX_POSITIONS = 64  # positions of a task at most
_READ_NBYTES = 1 << 24  # bytes of a file that are read at once


@dataclass(frozen=True)
class RescoreSettings:
    """Settings of `loader rescore`: engine, search limits, number of engines."""

    engine: EngineSettings
    limits: Limits
    engines: int = 1
    drop_unscored: bool = False

    @property
    def positions_of_a_task(self) -> int:
        """Returns the number of positions that an engine gets at once. It changes no score, only how much work a crash
        of the command may lose."""
        nodes = self.limits.nodes or _NODES_PER_TASK // 16  # limited by depth alone: a guess
        return max(1, min(_MAX_POSITIONS, _NODES_PER_TASK // nodes))

    def identity(self, target: Target) -> Settings:
        """Returns all settings on which a score depends, by the names of the options. The number of engines is not
        among them."""
        return {
            "scores of version": VERSION,
            "format": f"{target.format.name} {target.packing or ''}".strip(),
            **self.engine.identity(),
            "--nodes": self.limits.nodes,
            "--depth": self.limits.depth,
        }


def content_digest(files: Sequence[DataFile]) -> str:
    """Returns a SHA-256 digest of the content of all files. Raises DataChangedError, OSError."""
    digest = hashlib.sha256()
    for file in files:
        digest_of_file = hashlib.sha256()
        for begin in range(0, file.size, _READ_NBYTES):
            end = min(begin + _READ_NBYTES, file.size)
            digest_of_file.update(read_part(file, begin, end, may_grow=False))
        digest.update(digest_of_file.digest())
    return digest.hexdigest()
