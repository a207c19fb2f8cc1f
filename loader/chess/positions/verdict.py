"""The verdict of `loader verify` on a file of positions: how many can be read, and what no game can have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from loader.errors import DataError
from loader.formats.format import Illegal, Verdict


@dataclass(frozen=True)
class Judged:
    """A chunk, up to damage."""

    entries: int  # legal ones
    illegal: tuple[Illegal, ...] = ()
    damage: DataError | None = None


def illegal_of(kinds: Iterable[tuple[str, int, int | None, str]]) -> tuple[Illegal, ...]:
    """Turns what native functions give into `Illegal`."""
    return tuple(Illegal(*kind) for kind in kinds)


def verdict(file: str, chunks: Iterable[Judged]) -> Verdict:
    """Judges a file by its chunks, in order, up to the first damage, which may also be raised."""
    entries, kinds = 0, dict[str, Illegal]()
    damage: DataError | None = None
    try:
        for chunk in chunks:
            entries += chunk.entries
            for illegal in chunk.illegal:
                entries += illegal.entries
                before = kinds.get(illegal.kind)
                kinds[illegal.kind] = replace(before, entries=before.entries + illegal.entries) if before else illegal
            if chunk.damage is not None:
                raise chunk.damage
    except DataError as error:
        damage = error
    if damage is not None:
        return Verdict(file, False, entries, damage.offset, damage.reason, tuple(kinds.values()))
    return Verdict(file, not kinds, entries, illegal=tuple(kinds.values()))
