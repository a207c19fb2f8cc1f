"""`loader convert`: files of any formats as one file of another; `loader cat`, `head` and `sample`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loader.chess.files.units import UnitBlock, joined
from loader.chess.tools.draws import Draws
from loader.chess.tools.kind import Kind, Target, lost, made_up, refuse_without_moves
from loader.chess.tools.output import Output, check_free
from loader.chess.tools.source import (
    SourceFile,
    Tick,
    all_units,
    encoded_of,
    expected_bytes,
    refuse_empty,
    silent,
    units_of,
)
from loader.errors import UsageError


@dataclass(frozen=True)
class Change:
    """What becomes of entries on their way into another format."""

    lost: Sequence[str]
    made_up: Sequence[str]


def change_of(sources: Sequence[SourceFile], target: Kind, *, lossy: bool) -> Change:
    """Raises UsageError if something would be lost that `lossy` does not allow, or the target can't be written."""
    for source in sources:
        refuse_without_moves(source.path, source.kind, target)
    gone = list(dict.fromkeys(part for source in sources for part in lost(source.kind, target)))
    if gone and not lossy:
        names = ", ".join(dict.fromkeys(source.kind.name for source in sources if lost(source.kind, target)))
        raise UsageError(f"{target.name} has no room for what {names} has: {', '.join(gone)}; --lossy leaves it out")
    new = list(dict.fromkeys(part for source in sources for part in made_up(source.kind, target)))
    return Change(gone, new)


def convert(sources: Sequence[SourceFile], target: Target, output: Path, threads: int = 1, tick: Tick = silent) -> None:
    """Writes all entries of the files, one file after another.

    Units of the same format keep their bytes. Raises DataError at damage and for an entry that the target can't hold.
    """
    refuse_empty(sources)
    check_free(output, expected_bytes(sources, target.kind))
    whole, before = sum(source.size for source in sources), 0
    with Output(output, target) as out:
        for source in sources:
            if source.kind == target.kind:
                for block, done in units_of(source, target.kind, threads):
                    out.write(block)
                    tick(before + done, whole)
            else:
                for encoded, done in encoded_of(source, target.kind, threads):
                    out.write_encoded(encoded)
                    tick(before + done, whole)
                source.check_end()
            before += source.size
        out.publish()


def write_units(blocks: Iterable[UnitBlock], target: Target, output: Path | None) -> int:
    """Writes them to standard output if there is no file; how many entries."""
    if output is not None:
        check_free(output, 0)
    with Output(output, target) as out:
        for block in blocks:
            out.write(block)
        out.publish()
    return out.entries


def first_units(sources: Sequence[SourceFile], target: Kind, count: int, tick: Tick = silent) -> Iterator[UnitBlock]:
    """The first `count` units of all files."""
    left = count
    for block in all_units(sources, target, 1, tick):
        yield block.part(0, min(left, len(block)))
        left -= len(block)
        if left <= 0:
            return


def sampled_units(
    sources: Sequence[SourceFile], target: Kind, count: int, seed: int, threads: int = 1, tick: Tick = silent
) -> UnitBlock:
    """`count` units of all files, each as likely as any other, in their order; all if there are fewer.

    Those with the smallest draws, so memory is that of twice as many.
    """
    draws = Draws(seed)
    keys, kept = np.empty(0, np.uint64), joined([])
    for block in all_units(sources, target, threads, tick):
        drawn = draws.next(len(block))
        chosen = np.arange(len(block)) if len(kept) < count else np.flatnonzero(drawn < keys.max())
        if not len(chosen):
            continue
        keys = np.concatenate([keys, drawn[chosen]])
        kept = joined([kept, block.take(chosen)])
        if len(kept) > count:
            best = np.sort(np.argsort(keys, kind="stable")[:count])
            keys, kept = keys[best], kept.take(best)
    return kept
