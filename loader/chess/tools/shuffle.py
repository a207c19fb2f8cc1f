"""`loader shuffle`: all units of some files in a random order, within a limit of memory.

Unit number i has draw number i of the seed; the order is that of the draws, and of equal draws that of the input. So it
depends on the files and the seed alone. What memory does not hold is sorted into buckets on disk by the first bits of
the draws, then bucket by bucket in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from loader.chess.files.units import Numbers, UnitBlock
from loader.chess.tools.draws import Draws
from loader.chess.tools.external.kept_file import KeptFile
from loader.chess.tools.external.memory import SMALLEST_MEMORY, anonymous_memory
from loader.chess.tools.external.nameless_file import NamelessFile
from loader.chess.tools.external.spill import BITS, BUCKETS, GATHERED, HEADER, Buckets, Spill, by_draw
from loader.chess.tools.kind import Target
from loader.chess.tools.output import check_free, framed, packed
from loader.chess.tools.resumed_output import kept_work, work_settings
from loader.chess.tools.source import SourceFile, Tick, expected_bytes, refuse_empty, silent, units_from
from loader.errors import UsageError
from loader.resumable.delivery import PUBLISHING, deliver_new, is_delivered
from loader.resumable.journal import State
from loader.resumable.work_file import WorkFile, is_begun

_READ_AHEAD = 2 << 20  # bytes of a chunk that is read ahead, and of its tables
_COPIES = 3  # of what is held: units, then units with their draws in buckets; or those of a bucket and their order
_SHIFT = 64 - BITS  # of the draws, for the first level of buckets

# Keys of the work's state.
_TABLES = "tables"  # of batches in the spill: where each lies
_NEXT = "next"  # file and chunk behind them
_UNITS = "units"  # in them
_ENTRIES = "entries"
_END = (-1, -1)  # there is no more


def shuffle(
    sources: Sequence[SourceFile],
    target: Target,
    output: Path,
    seed: int,
    memory: int,
    threads: int = 1,
    tick: Tick = silent,
) -> int:
    """How many entries were written. What has been sorted into buckets is kept where the work is interrupted, and the
    same call goes on with it. Raises DataError, OSError, UsageError."""
    refuse_empty(sources)
    held, threads = _limits(memory, threads)
    if not is_begun(output):
        size = expected_bytes(sources, target.kind)
        check_free(output, size if size < held else 3 * size)
    settings = {**work_settings("shuffle", sources, target), "--seed": seed}
    with WorkFile(output, settings, {_TABLES: [], _NEXT: (0, 0), _UNITS: 0, _ENTRIES: 0}) as work:
        if work.done:
            work.remove()
            return int(work.state[_ENTRIES])
        if PUBLISHING not in work.state:
            check_free(output, 0)
        with kept_work(work):
            return _shuffle(sources, target, work, seed, held, threads, tick)


def _shuffle(
    sources: Sequence[SourceFile], target: Target, work: WorkFile, seed: int, held: int, threads: int, tick: Tick
) -> int:
    """Two passes over the data, each half of the progress: into buckets, and bucket by bucket."""
    whole = sum(source.size for source in sources)
    file = KeptFile(work)
    spill = Spill(file)
    for place in work.state[_TABLES]:
        spill.read_table(place)
    if tuple(work.state[_NEXT]) != _END:
        for batch, state in _batches(
            sources, target, work.state, seed, held, threads, lambda done, _: tick(done, 2 * whole)
        ):
            if state[_NEXT] == _END and not work.state[_TABLES]:
                _publish(partial(_sorted, batch), target, work)
                return int(state[_ENTRIES])
            spill.add(batch)
            file.commit({**state, _TABLES: [*work.state[_TABLES], spill.write_table()]})

    def second(done: int, of: int) -> None:
        tick(whole + whole * done // of, 2 * whole)

    entries = int(work.state[_ENTRIES])
    _publish(partial(_bucket_blocks, spill, work.path.parent, _SHIFT, held, second), target, work)
    return entries


def _publish(blocks: Callable[[], Iterator[UnitBlock]], target: Target, work: WorkFile) -> None:
    def data() -> Iterator[bytes]:
        return packed(framed(blocks(), target.kind), target)

    if os.path.lexists(work.path) and is_delivered(work, data):
        work.remove()
    else:
        deliver_new(work, data)


def _limits(memory: int, threads: int) -> tuple[int, int]:
    """Bytes of units that may be held, and how many threads read: fewer where memory is short."""
    left = memory - anonymous_memory()
    threads = max(1, min(threads, left // (8 * _READ_AHEAD)))
    held = (left - (2 * threads + 1) * _READ_AHEAD - 3 * GATHERED) // _COPIES
    if held < 1 << 20:
        enough = max(SMALLEST_MEMORY, memory + _COPIES * ((2 << 20) - held))  # more where this process has much already
        raise UsageError(f"--memory: {memory >> 20} MiB is too little; give {enough >> 20} MiB or more")
    return held, threads


def _batches(
    sources: Sequence[SourceFile], target: Target, begin: State, seed: int, held: int, threads: int, tick: Tick
) -> Iterator[tuple[Buckets, State]]:
    """What is behind the batches that the work has by its state `begin`, as many units at once as may be held; and the
    state after each."""
    file, first = begin[_NEXT]
    state = dict(begin)
    draws = Draws(seed, state[_UNITS])
    blocks: list[tuple[UnitBlock, Numbers]] = []
    size, whole = 0, sum(source.size for source in sources)
    before = sum(source.size for source in sources[:file])
    for number, source in enumerate(sources[file:], file):
        for block, following in units_from(source, target.kind, threads, first):
            more = len(block.bytes) + HEADER * len(block)
            if blocks and size + more > held:
                yield _in_buckets(blocks), dict(state)
                size = 0
            blocks.append((block, draws.next(len(block))))
            size += more
            state |= {_NEXT: (number, following), _UNITS: state[_UNITS] + len(block)}
            state[_ENTRIES] += int(block.entries.sum())
            tick(before + source.offset(following), whole)
        source.check_end()
        before, first = before + source.size, 0
    yield _in_buckets(blocks), {**state, _NEXT: _END}


def _in_buckets(blocks: list[tuple[UnitBlock, Numbers]]) -> Buckets:
    """Empties the list."""
    batch = Buckets.of_blocks(blocks, _SHIFT)
    blocks.clear()
    return batch


def _bucket_blocks(spill: Spill, folder: Path, shift: int, held: int, tick: Tick = silent) -> Iterator[UnitBlock]:
    for bucket in range(BUCKETS):
        tick(bucket, BUCKETS)
        if spill.size(bucket) <= held or shift == 0:
            yield from by_draw(spill.read(bucket))
            continue
        with NamelessFile(folder) as file:
            finer = Spill(file)
            for drawn in spill.parts(bucket, held):
                finer.add(Buckets.of_drawn(drawn, shift - BITS))
            yield from _bucket_blocks(finer, folder, shift - BITS, held)


def _sorted(batch: Buckets) -> Iterator[UnitBlock]:
    for drawn in batch:
        yield from by_draw(drawn)
