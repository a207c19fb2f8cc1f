"""The work of `loader shuffle`, which writes all units (records, lines, games or chains) of files in a random order,
within a limit of memory.

Unit i of the input gets random number i of the seed. The units are sorted by these numbers, equal ones in the order of
the input, so the order depends only on the files and the seed. If memory is too small, units are first sorted into
buckets on disk by the leading bits of their numbers, and then in memory, bucket by bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path

from loader.chess.positions.format import Target
from loader.chess.positions.input import (
    SourceFile,
    estimate_bytes,
    ignore_progress,
    read_units_from,
    refuse_empty,
)
from loader.chess.positions.output import add_chunk_headers, check_output, packed
from loader.chess.positions.pgn_comments import NO_SETTINGS
from loader.chess.positions.units import Numbers, UnitBlock, concatenate
from loader.chess.tools.external_sort.memory import SMALLEST_MEMORY, anonymous_memory
from loader.chess.tools.external_sort.resumable_file import ResumableFile
from loader.chess.tools.external_sort.spill import BITS, BUCKETS, GATHERED, HEADER, Buckets, Spill, sort_by_draw
from loader.chess.tools.external_sort.unnamed_file import UnnamedFile
from loader.chess.tools.random_keys import RandomKeys
from loader.errors import DataError, InterruptedBySignalError, UsageError
from loader.files.delivery import deliver_new, is_delivered
from loader.files.fingerprint import fingerprint
from loader.files.journal import Settings, State
from loader.files.work_file import WorkFile, has_unfinished_work, unfinished_nbytes
from loader.formats.format import OnProgress

BLOCK = 4096  # units that are written at once, independent of --memory, so that no compressed byte depends on it
_READ_AHEAD = 2 << 20  # bytes of memory for a chunk that is read ahead, with its tables
_COPIES = 3  # copies of units in memory: as read, then in buckets with their draws; or a bucket and its sorted units
_SHIFT = 64 - BITS  # lowest bit of a draw that chooses the bucket on the first level

# Keys of the work's state.
_TABLES = "tables"  # offsets of the tables of the batches that are on disk
_NEXT = "next"  # file and chunk with which the work continues
_UNITS = "units"  # number of units on disk
_ENTRIES = "entries"  # number of entries on disk
_LEFT_OUT = "left out"  # what was left out of each source, by chunk
_START: State = {_TABLES: [], _NEXT: (0, 0), _UNITS: 0, _ENTRIES: 0, _LEFT_OUT: []}
_END = (-1, -1)  # value of _NEXT when all files are on disk

OfBucket = Callable[[int], Iterator[UnitBlock]]  # yields the units of a bucket in the new order


def shuffle(
    sources: Sequence[SourceFile],
    target: Target,
    output: Path,
    seed: int,
    memory: int,
    threads: int = 1,
    on_progress: OnProgress = ignore_progress,
) -> int:
    """Writes all units of the sources in a random order, and returns the number of their entries.

    Makes two passes over the data, each half of the progress: into buckets (OUT.part), then from each bucket in order
    to the output. Buckets are kept if the work is interrupted, and the same call continues with them. Raises DataError,
    OSError, UsageError.
    """
    refuse_empty(sources)
    held, threads = _limits(memory, threads)
    size, whole = estimate_bytes(sources, target.format), sum(source.size for source in sources)
    spilled = 0 if size < held else max(2 * size - unfinished_nbytes(output), 0)
    if not has_unfinished_work(output):
        check_output(output, size + spilled)
    with WorkFile(output, _settings(sources, target, seed), _START) as work, _kept_work(work):
        if work.done:
            work.remove()
            return int(work.state[_ENTRIES])
        of_bucket, entries = _into_buckets(
            sources, target, work, seed, held, threads, lambda done, _: on_progress(done, 2 * whole)
        )

        def blocks() -> Iterator[bytes]:
            def report(bucket: int) -> None:
                on_progress(whole + whole * bucket // BUCKETS, 2 * whole)

            return packed(add_chunk_headers(_in_order(of_bucket, report), target.format), target)

        if is_delivered(work, blocks):
            work.remove()
            return entries
        check_output(output, 0)
        deliver_new(work, blocks)
        return entries


def _settings(sources: Sequence[SourceFile], target: Target, seed: int) -> Settings:
    """Returns everything that the bytes of the output depend on, by the names of the options. An interrupted work is
    continued only if these are the same."""
    comments = next((source.format.comments for source in sources if source.format.comments is not None), NO_SETTINGS)
    return {
        "command": "shuffle",
        "files": fingerprint([source.data_file for source in sources if source.data_file is not None]),
        "format": f"{target.format.name} {target.packing or ''}".strip(),
        "--on-bad-data": sources[0].policy.on_bad_data,
        **{f"--pgn-{name}": value for name, value in asdict(comments).items() if value is not None},
        "--seed": seed,
    }


@contextmanager
def _kept_work(work: WorkFile) -> Iterator[None]:
    """Decides what remains when the work ends in an error. Removes the work file after an error in the data, which
    would come again, and when there is nothing to continue with. Else adds a note to the signal or the full disk that
    says how much is kept."""
    try:
        yield
    except DataError:
        work.remove()
        raise
    except (InterruptedBySignalError, OSError) as error:
        if work.end:
            error.add_note(f"{work.end:,} bytes of it are in {work.part}; the same command goes on")
        elif isinstance(error, InterruptedBySignalError):
            work.remove()
        raise


def _into_buckets(
    sources: Sequence[SourceFile],
    target: Target,
    work: WorkFile,
    seed: int,
    held: int,
    threads: int,
    on_progress: OnProgress,
) -> tuple[OfBucket, int]:
    """Sorts all units into buckets: in memory if all fit there, else in the work file. Continues after the batches that
    the work file has already. Returns a function that yields the sorted units of a bucket, and the number of entries in
    all buckets."""
    file = ResumableFile(work)
    spill = Spill(file)
    for source, skipped in zip(sources, work.state[_LEFT_OUT], strict=False):
        source.skipped.add_json(skipped)
    for place in work.state[_TABLES]:
        spill.read_table(place)
    if tuple(work.state[_NEXT]) != _END:
        for batch, state in _batches(sources, target, work.state, seed, held, threads, on_progress):
            if state[_NEXT] == _END and not work.state[_TABLES]:
                return partial(_of_bucket_held, batch), state[_ENTRIES]
            spill.add(batch)
            skipped = [source.skipped.to_json() for source in sources]
            file.commit({**state, _TABLES: [*work.state[_TABLES], spill.write_table()], _LEFT_OUT: skipped})
    return partial(_of_bucket, spill, work.path.parent, _SHIFT, held), int(work.state[_ENTRIES])


def _in_order(of_bucket: OfBucket, report: Callable[[int], None]) -> Iterator[UnitBlock]:
    """Yields all units in the new order, in blocks of 4096 units. Calls `report` with the number of the bucket that is
    read."""
    waiting: list[UnitBlock] = []
    missing = BLOCK
    for bucket in range(BUCKETS):
        for block in of_bucket(bucket):
            rest = block
            while len(rest) >= missing:
                yield concatenate([*waiting, rest.slice(0, missing)])
                rest = rest.slice(missing, len(rest))
                waiting, missing = [], BLOCK
                report(bucket)
            if len(rest):
                waiting.append(rest)
                missing -= len(rest)
    yield concatenate(waiting)
    report(BUCKETS)


def _limits(memory: int, threads: int) -> tuple[int, int]:
    """Divides the memory between reading threads and sorting. Returns the bytes of units that may be held, and the
    number of threads, which is smaller if memory is short. Raises UsageError if the memory is too little."""
    left = memory - anonymous_memory()
    threads = max(1, min(threads, left // (8 * _READ_AHEAD)))
    held = (left - (2 * threads + 1) * _READ_AHEAD - 3 * GATHERED) // _COPIES
    if held < 1 << 20:
        enough = max(SMALLEST_MEMORY, memory + _COPIES * ((2 << 20) - held))  # more where this process has much already
        raise UsageError(f"--memory: {memory >> 20} MiB is too little; give {enough >> 20} MiB or more")
    return held, threads


def _batches(
    sources: Sequence[SourceFile],
    target: Target,
    begin: State,
    seed: int,
    held: int,
    threads: int,
    on_progress: OnProgress,
) -> Iterator[tuple[Buckets, State]]:
    """Yields batches of units sorted into buckets, each as large as memory allows, and the state of the work after
    each. Starts after the units that are counted in the state `begin`."""
    file, first = begin[_NEXT]
    state = dict(begin)
    draws = RandomKeys(seed, state[_UNITS])
    blocks: list[tuple[UnitBlock, Numbers]] = []
    size, whole = 0, sum(source.size for source in sources)
    before = sum(source.size for source in sources[:file])
    for number, source in enumerate(sources[file:], file):
        for block, following in read_units_from(source, target.format, threads, first):
            more = len(block.bytes) + HEADER * len(block)
            if blocks and size + more > held:
                yield _in_buckets(blocks), dict(state)
                size = 0
            blocks.append((block, draws.next(len(block))))
            size += more
            state |= {
                _NEXT: (number, following),
                _UNITS: state[_UNITS] + len(block),
                _ENTRIES: state[_ENTRIES] + int(block.entries.sum()),
            }
            on_progress(before + source.offset(following), whole)
        source.check_end()
        before, first = before + source.size, 0
    yield _in_buckets(blocks), {**state, _NEXT: _END}


def _in_buckets(blocks: list[tuple[UnitBlock, Numbers]]) -> Buckets:
    """Sorts the units of `blocks` into buckets, and empties the list to free its memory."""
    batch = Buckets.of_blocks(blocks, _SHIFT)
    blocks.clear()
    return batch


def _of_bucket(spill: Spill, folder: Path, shift: int, held: int, bucket: int) -> Iterator[UnitBlock]:
    """Yields the units of a bucket on disk in the order of their random numbers. A bucket of more than `held` bytes is
    first divided into finer buckets, by the next bits of the numbers."""
    if spill.size(bucket) <= held or shift == 0:
        yield from sort_by_draw(spill.read(bucket))
        return
    with UnnamedFile(folder) as file:
        finer = Spill(file)
        for drawn in spill.parts(bucket, held):
            finer.add(Buckets.of_drawn(drawn, shift - BITS))
        for each in range(BUCKETS):
            yield from _of_bucket(finer, folder, shift - BITS, held, each)


def _of_bucket_held(batch: Buckets, bucket: int) -> Iterator[UnitBlock]:
    """Yields the units of a bucket in memory in the order of their random numbers."""
    return sort_by_draw(batch.drawn(bucket))
