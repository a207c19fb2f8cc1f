"""`loader shuffle`: all units of some files in a random order, within a limit of memory.

Unit number i has draw number i of the seed; the order is that of the draws, and of equal draws that of the input. So it
depends on the files and the seed alone. What memory does not hold is sorted into buckets on disk by the first bits of
the draws, then bucket by bucket in memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from loader.chess.files.units import Numbers, UnitBlock, joined
from loader.chess.tools.draws import Draws
from loader.chess.tools.kind import Target
from loader.chess.tools.output import Output, check_free
from loader.chess.tools.source import SourceFile, Tick, all_units, expected_bytes, refuse_empty, silent
from loader.chess.tools.spill import BITS, Drawn, Spill
from loader.errors import UsageError

SMALLEST_MEMORY = 64 << 20
_READ_AHEAD = 2 << 20  # bytes of a chunk that is read ahead, and of its tables
_COPIES = 4  # of what is held, while it is joined, sorted and gathered
_WRITTEN = 4 << 20  # bytes gathered at once
_OWN = re.compile(rb"RssAnon:\s+(\d+) kB")


def shuffle(
    sources: Sequence[SourceFile],
    target: Target,
    output: Path,
    seed: int,
    memory: int,
    threads: int = 1,
    tick: Tick = silent,
) -> int:
    """How many entries were written. Raises DataError, OSError, UsageError."""
    refuse_empty(sources)
    size = expected_bytes(sources, target.kind)
    held, threads = _limits(memory, threads)
    check_free(output, size if size < held else 3 * size)
    with Output(output, target) as out, Spill(output.parent, 64 - BITS) as spill:
        spilled = False
        for drawn, last in _batches(sources, target, seed, held, threads, tick):
            if last and not spilled:
                _write_sorted(drawn, out)
            else:
                spilled = True
                spill.add(drawn)
        _write_buckets(spill, output.parent, 64 - BITS, held, out, tick)
        out.publish()
    return out.entries


def _limits(memory: int, threads: int) -> tuple[int, int]:
    """Bytes of units that may be held, and how many threads read: fewer where memory is short."""
    left = memory - _anonymous_memory()
    threads = max(1, min(threads, left // (8 * _READ_AHEAD)))
    held = (left - (2 * threads + 1) * _READ_AHEAD - 3 * _WRITTEN) // _COPIES
    if held < 1 << 20:
        enough = max(SMALLEST_MEMORY, memory + _COPIES * ((2 << 20) - held))  # more where this process has much already
        raise UsageError(f"--memory: {memory >> 20} MiB is too little; give {enough >> 20} MiB or more")
    return held, threads


def _anonymous_memory() -> int:
    with suppress(OSError):
        if found := _OWN.search(Path("/proc/self/status").read_bytes()):
            return int(found[1]) << 10
    return 32 << 20


def _batches(
    sources: Sequence[SourceFile], target: Target, seed: int, held: int, threads: int, tick: Tick
) -> Iterator[tuple[Drawn, bool]]:
    """All units, as many at once as may be held; and whether they are the last."""
    draws = Draws(seed)
    blocks: list[UnitBlock] = []
    keys: list[Numbers] = []
    cost = 0
    for block in all_units(sources, target.kind, threads, tick):
        more = Drawn.cost_of(len(block.bytes), len(block))
        if blocks and cost + more > held:
            yield _drawn(blocks, keys), False
            cost = 0
        blocks.append(block)
        keys.append(draws.next(len(block)))
        cost += more
    yield _drawn(blocks, keys), True


def _drawn(blocks: list[UnitBlock], keys: list[Numbers]) -> Drawn:
    """Empties the lists."""
    drawn = Drawn(joined(blocks), np.concatenate([np.empty(0, np.uint64), *keys]))
    blocks.clear()
    keys.clear()
    return drawn


def _write_buckets(spill: Spill, folder: Path, shift: int, held: int, out: Output, tick: Tick) -> None:
    for bucket in spill.buckets():
        tick(1, 1)
        if spill.cost(bucket) <= held or shift == 0:
            _write_sorted(spill.read(bucket), out)
            continue
        with Spill(folder, shift - BITS) as finer:
            for drawn in spill.parts(bucket, held):
                finer.add(drawn)
            _write_buckets(finer, folder, shift - BITS, held, out, tick)


def _write_sorted(drawn: Drawn, out: Output) -> None:
    order = np.argsort(drawn.keys, kind="stable")
    sizes = np.diff(drawn.block.ends, prepend=np.uint64(0))
    places = np.cumsum(sizes[order], dtype=np.uint64)
    begin = 0
    while begin < len(order):
        written = int(places[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(places, np.uint64(written + _WRITTEN), side="right")))
        out.write(drawn.block.take(order[begin:end]))
        begin = end
