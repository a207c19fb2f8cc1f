"""The work of `loader convert`, which writes files of any formats as one file of another format, and of `loader head`
and `sample`, which write some of their units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loader.chess.positions.format import PositionFormat, Target, lost_parts, made_up_parts, refuse_without_moves
from loader.chess.positions.input import (
    Source,
    estimate_bytes,
    ignore_progress,
    read_all_units,
    read_encoded_from,
    read_units_from,
    refuse_empty,
    total_size,
)
from loader.chess.positions.output import Output, check_output
from loader.chess.positions.units import UnitBlock, concatenate
from loader.chess.tools.random_keys import RandomKeys
from loader.errors import UsageError
from loader.files.pipes import OutputPipe
from loader.formats.format import OnProgress


@dataclass(frozen=True)
class ConversionEffects:
    """The parts of a position (move, ply, castling rights, ...) that a conversion loses, and those that it makes up."""

    lost: Sequence[str]
    made_up: Sequence[str]


def check_conversion(sources: Sequence[Source], target: PositionFormat, *, lossy: bool) -> ConversionEffects:
    """Determines what a conversion to the target format loses and makes up. Raises UsageError if something would be
    lost and `lossy` is not set, or if the target needs moves that a source does not have."""
    for source in sources:
        refuse_without_moves(source.path, source.format, target)
    lost = list(dict.fromkeys(part for source in sources for part in lost_parts(source.format, target)))
    if lost and not lossy:
        names = ", ".join(dict.fromkeys(source.format.name for source in sources if lost_parts(source.format, target)))
        raise UsageError(f"{target.name} has no room for what {names} has: {', '.join(lost)}; --lossy leaves it out")
    made_up = list(dict.fromkeys(part for source in sources for part in made_up_parts(source.format, target)))
    return ConversionEffects(lost, made_up)


def convert(
    sources: Sequence[Source],
    target: Target,
    output: Path | OutputPipe,
    threads: int = 1,
    on_progress: OnProgress = ignore_progress,
) -> None:
    """Writes all entries of the sources in the target format, one source after another.

    Units of the same format keep their bytes, unless scores are scaled. What was changed is counted in the `changes` of
    each source. Raises DataError at damage and for an entry that the target can't store, OSError, UsageError.
    """
    refuse_empty(sources)
    _check_output(output, estimate_bytes(sources, target.format))
    num_bytes, bytes_of_done_sources = total_size(sources), 0
    with Output(output, target) as out:
        for source in sources:
            done = 0
            for done in _convert_source(source, target.format, out, threads):
                on_progress(bytes_of_done_sources + done, num_bytes)
            bytes_of_done_sources += done
        out.publish()


def _convert_source(source: Source, target: PositionFormat, out: Output, threads: int) -> Iterator[int]:
    """Writes the entries of a source. Yields the number of its bytes that are done, after every block."""
    if target.chunk_header is not None:
        for block, next_chunk in read_units_from(source, target, threads):
            out.write(block)
            yield source.offset(next_chunk)
    else:
        for data, next_chunk in read_encoded_from(source, target, threads):
            out.write_encoded(data)
            yield source.offset(next_chunk)
    source.check_end()


def write_units(blocks: Iterable[UnitBlock], target: Target, output: Path | OutputPipe, needed: int = 0) -> int:
    """Writes blocks of units to a file or pipe, and returns the number of their entries. Checks first that the disk has
    `needed` bytes free. Raises OSError, UsageError."""
    _check_output(output, needed)
    with Output(output, target) as out:
        for block in blocks:
            out.write(block)
        out.publish()
    return out.entries


def _check_output(output: Path | OutputPipe, needed: int) -> None:
    """Checks that an output file can be written, and accepts every pipe. Raises UsageError if the file's name is taken,
    OSError if the disk has less than `needed` bytes left."""
    if isinstance(output, Path):
        check_output(output, needed)


def read_first_units(
    sources: Sequence[Source], target: PositionFormat, count: int, on_progress: OnProgress = ignore_progress
) -> Iterator[UnitBlock]:
    """Yields the first `count` units of all sources."""
    remaining = count
    for block in read_all_units(sources, target, 1, on_progress):
        yield block.slice(0, min(remaining, len(block)))
        remaining -= len(block)
        if remaining <= 0:
            return


def sample_units(
    sources: Sequence[Source],
    target: PositionFormat,
    count: int,
    seed: int,
    threads: int = 1,
    on_progress: OnProgress = ignore_progress,
) -> UnitBlock:
    """Draws `count` units of all sources at random, each as likely as any other, and returns them in the order of the
    input. Returns all units if there are fewer.

    The units with the smallest random keys are retained, so memory holds about twice `count` units at most.
    """
    random_keys = RandomKeys(seed)
    keys, sample = np.empty(0, np.uint64), concatenate([])
    for block in read_all_units(sources, target, threads, on_progress):
        block_keys = random_keys.next(len(block))
        is_full = len(sample) >= count
        candidates = np.flatnonzero(block_keys < keys.max()) if is_full else np.arange(len(block))
        if not len(candidates):
            continue
        keys = np.concatenate([keys, block_keys[candidates]])
        sample = concatenate([sample, block.take(candidates)])
        if len(sample) > count:
            smallest = np.sort(np.argsort(keys, kind="stable")[:count])
            keys, sample = keys[smallest], sample.take(smallest)
    return sample
