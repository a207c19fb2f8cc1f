"""What verify says of a file of positions: how many can be read, and what no game can have."""

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


def illegal_of(found: Iterable[tuple[str, int, int | None, str]]) -> tuple[Illegal, ...]:
    """Takes what native functions give."""
    return tuple(Illegal(*kind) for kind in found)


def verdict(file: str, chunks: Iterable[Judged]) -> Verdict:
    """Judges a file by its chunks, in order, up to the first damage, which may also be raised."""
    entries, kinds = 0, dict[str, Illegal]()
    damage: DataError | None = None
    try:
        for chunk in chunks:
            entries += chunk.entries
            for found in chunk.illegal:
                entries += found.entries
                before = kinds.get(found.kind)
                kinds[found.kind] = replace(before, entries=before.entries + found.entries) if before else found
            if chunk.damage is not None:
                raise chunk.damage
    except DataError as error:
        damage = error
    illegal = tuple(kinds.values())
    if damage is not None:
        return Verdict(file, False, entries, damage.offset, damage.reason, illegal)
    return Verdict(file, not illegal, entries, illegal=illegal)
