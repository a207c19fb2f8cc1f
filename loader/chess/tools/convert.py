"""`loader convert`: files of any formats as one file of another; `loader head` and `sample`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loader.chess.positions.format import PositionFormat, Target, lost, made_up, refuse_without_moves
from loader.chess.positions.input import (
    Source,
    SourceFile,
    Tick,
    all_units,
    bytes_from,
    changes_of,
    expected_bytes,
    refuse_empty,
    silent,
    units_from,
)
from loader.chess.positions.output import Output, check_free
from loader.chess.positions.resumed_output import Place, ResumedOutput, work_settings
from loader.chess.positions.units import UnitBlock, joined
from loader.chess.tools.random_keys import Draws
from loader.errors import UsageError
from loader.files.pipes import OutputPipe


@dataclass(frozen=True)
class Change:
    """Changes of entries on their way into another format."""

    lost: Sequence[str]
    made_up: Sequence[str]


def change_of(sources: Sequence[Source], target: PositionFormat, *, lossy: bool) -> Change:
    """Raises UsageError if something would be lost that `lossy` does not allow, or the target can't be written."""
    for source in sources:
        refuse_without_moves(source.path, source.format, target)
    gone = list(dict.fromkeys(part for source in sources for part in lost(source.format, target)))
    if gone and not lossy:
        names = ", ".join(dict.fromkeys(source.format.name for source in sources if lost(source.format, target)))
        raise UsageError(f"{target.name} has no room for what {names} has: {', '.join(gone)}; --lossy leaves it out")
    new = list(dict.fromkeys(part for source in sources for part in made_up(source.format, target)))
    return Change(gone, new)


def convert(sources: Sequence[SourceFile], target: Target, output: Path, threads: int = 1, tick: Tick = silent) -> None:
    """Writes all entries of the files, one file after another.

    Units of the same format keep their bytes, unless scores are scaled. What is written is kept where the work is
    interrupted, and the same call goes on with it. What was changed on the way is in the sources' `changes`. Raises
    DataError at damage and for an entry that the target can't hold.
    """
    refuse_empty(sources)
    whole, settings = sum(source.size for source in sources), work_settings("convert", sources, target)
    settings = {**settings, **({"--scale": str(sources[0].scale)} if sources[0].scale != 1 else {})}
    with ResumedOutput(
        output, target, settings, (0, 0, {}), lambda: expected_bytes(sources, target.format), sources
    ) as out:
        begin, before = out.place, 0
        sources[0].changes.update(begin[2])
        for number, source in enumerate(sources):
            if number >= begin[0] and not out.done:
                for done in _converted(sources, number, begin, target, out, threads):
                    tick(before + done, whole)
            before += source.size
        out.publish()


def _converted(
    sources: Sequence[SourceFile], number: int, begin: Place, target: Target, out: ResumedOutput, threads: int
) -> Iterator[int]:
    """Writes what comes behind `begin` of file `number`; bytes of it that are done, again and again."""
    source = sources[number]
    first = begin[1] if begin[0] == number else 0
    if target.format.chunk_header is not None:
        for block, chunk in units_from(source, target.format, threads, first):
            out.write(block, (number, chunk, changes_of(sources)))
            yield source.offset(chunk)
    else:
        for data, chunk in bytes_from(source, target.format, threads, first):
            out.write_bytes(data, (number, chunk, changes_of(sources)))
            yield source.offset(chunk)
    source.check_end()


def write_units(blocks: Iterable[UnitBlock], target: Target, output: Path | OutputPipe) -> int:
    """How many entries."""
    if isinstance(output, Path):
        check_free(output, 0)
    with Output(output, target) as out:
        for block in blocks:
            out.write(block)
        out.publish()
    return out.entries


def first_units(
    sources: Sequence[Source], target: PositionFormat, count: int, tick: Tick = silent
) -> Iterator[UnitBlock]:
    """The first `count` units of all files."""
    left = count
    for block in all_units(sources, target, 1, tick):
        yield block.part(0, min(left, len(block)))
        left -= len(block)
        if left <= 0:
            return


def sampled_units(
    sources: Sequence[Source], target: PositionFormat, count: int, seed: int, threads: int = 1, tick: Tick = silent
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
